/* SPDX-License-Identifier: MIT */
/* A lister of MPI_T that knows nothing of any MPI: every variable and category with what
 * is told about it, before MPI_Init, after it, and after MPI_Finalize; and its value, but
 * after MPI_Finalize, when those of Open MPI 4.1 are gone.
 * No value is read of variables whose names begin with a word of the command line: some of
 * Open MPI 4.1 end the process, those of components that were unloaded.
 *
 *   list_variables [SKIPPED ...]
 *
 *   cvar INDEX NAME VERBOSITY TYPE BIND SCOPE COUNT = VALUE
 *   pvar INDEX NAME VERBOSITY CLASS TYPE BIND READONLY CONTINUOUS ATOMIC COUNT = VALUE
 *   category INDEX NAME: CVARS / PVARS / CATEGORIES, by index
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char **skipped;
static int with_values;

static int is_skipped(const char *name)
{
    if (!with_values)
        return 1;
    for (char **word = skipped; *word; ++word)
        if (strncmp(name, *word, strlen(*word)) == 0)
            return 1;
    return 0;
}

static void expect(int rc, const char *what, int index)
{
    if (rc == MPI_SUCCESS)
        return;
    printf("\nrefused: %s of %d: %d\n", what, index, rc);
}

/* Datatypes are compared by handle: MPI_Type_get_name needs MPI_Init. */
static const char *type_name(MPI_Datatype type)
{
    return type == MPI_INT                ? "int"
           : type == MPI_UNSIGNED           ? "unsigned"
           : type == MPI_UNSIGNED_LONG      ? "unsigned long"
           : type == MPI_UNSIGNED_LONG_LONG ? "unsigned long long"
           : type == MPI_COUNT              ? "count"
           : type == MPI_CHAR               ? "char"
           : type == MPI_DOUBLE             ? "double"
                                            : "another";
}

static void print_value(MPI_Datatype type, const void *value)
{
    if (type == MPI_INT)
        printf("%d", *(const int *)value);
    else if (type == MPI_UNSIGNED)
        printf("%u", *(const unsigned *)value);
    else if (type == MPI_UNSIGNED_LONG)
        printf("%lu", *(const unsigned long *)value);
    else if (type == MPI_UNSIGNED_LONG_LONG)
        printf("%llu", *(const unsigned long long *)value);
    else if (type == MPI_CHAR)
        printf("%s", (const char *)value);
    else if (type == MPI_DOUBLE)
        printf("%g", *(const double *)value);
    else
        printf("?");
}

static void list_cvars(void)
{
    int n = 0;
    expect(MPI_T_cvar_get_num(&n), "number of cvars", 0);
    for (int i = 0; i < n; ++i) {
        char name[256];
        int length = sizeof name, verbosity, bind, scope, count = 0, at = -1;
        MPI_Datatype type;
        MPI_T_cvar_handle handle;
        int rc = MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, NULL, NULL, NULL, &bind, &scope);
        if (rc == MPI_T_ERR_INVALID_INDEX)
            continue; /* a variable of a component that was closed */
        expect(rc, "cvar info", i);
        expect(MPI_T_cvar_get_index(name, &at), "cvar index", i);
        printf("cvar %d %s %d %s %d %d", i, name, verbosity, type_name(type), bind, scope);
        if (at != i)
            printf(" (found at %d)", at);
        if (is_skipped(name)) {
            printf("\n");
            continue;
        }
        rc = MPI_T_cvar_handle_alloc(i, NULL, &handle, &count);
        expect(rc, "cvar handle", i);
        if (rc == MPI_SUCCESS && count >= 0) {
            char *value = calloc((size_t)count + 1, 16);
            expect(MPI_T_cvar_read(handle, value), "cvar", i);
            printf(" %d = ", count);
            print_value(type, value);
            free(value);
            expect(MPI_T_cvar_handle_free(&handle), "free cvar handle", i);
        }
        printf("\n");
    }
}

static void list_pvars(void)
{
    int n = 0;
    MPI_T_pvar_session session;
    expect(MPI_T_pvar_get_num(&n), "number of pvars", 0);
    expect(MPI_T_pvar_session_create(&session), "session", 0);
    for (int i = 0; i < n; ++i) {
        char name[256];
        int length = sizeof name, verbosity, class, bind, readonly, continuous, atomic, count = 0, at = -1;
        MPI_Datatype type;
        MPI_T_pvar_handle handle;
        int rc = MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type, NULL, NULL, NULL, &bind, &readonly,
                                     &continuous, &atomic);
        if (rc == MPI_T_ERR_INVALID_INDEX)
            continue;
        expect(rc, "pvar info", i);
        expect(MPI_T_pvar_get_index(name, class, &at), "pvar index", i);
        printf("pvar %d %s %d %d %s %d %d %d %d", i, name, verbosity, class, type_name(type), bind, readonly,
               continuous, atomic);
        if (at != i)
            printf(" (found at %d)", at);
        if (bind == MPI_T_BIND_NO_OBJECT && !is_skipped(name)) {
            rc = MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &count);
            expect(rc, "pvar handle", i);
            if (rc == MPI_SUCCESS) {
                char *value = calloc((size_t)count + 1, 16);
                expect(MPI_T_pvar_read(session, handle, value), "pvar", i);
                printf(" %d = ", count);
                print_value(type, value);
                free(value);
                expect(MPI_T_pvar_handle_free(session, &handle), "free pvar handle", i);
            }
        }
        printf("\n");
    }
    expect(MPI_T_pvar_session_free(&session), "free session", 0);
}

static void list_categories(void)
{
    int n = 0;
    expect(MPI_T_category_get_num(&n), "number of categories", 0);
    for (int i = 0; i < n; ++i) {
        char name[256];
        int length = sizeof name, held[3], at = -1;
        expect(MPI_T_category_get_info(i, name, &length, NULL, NULL, held, held + 1, held + 2), "category", i);
        expect(MPI_T_category_get_index(name, &at), "category index", i);
        printf("category %d %s", i, name);
        if (at != i)
            printf(" (found at %d)", at);
        printf(":");
        for (int kind = 0; kind < 3; ++kind) {
            int *indices = malloc(sizeof(int) * (size_t)(held[kind] + 1));
            indices[held[kind]] = -7;
            expect(kind == 0   ? MPI_T_category_get_cvars(i, held[kind], indices)
                   : kind == 1 ? MPI_T_category_get_pvars(i, held[kind], indices)
                               : MPI_T_category_get_categories(i, held[kind], indices),
                   "what a category holds", i);
            if (indices[held[kind]] != -7)
                expect(-1, "more than was asked for", i);
            for (int k = 0; k < held[kind]; ++k)
                printf(" %d", indices[k]);
            printf(kind < 2 ? " /" : "\n");
            free(indices);
        }
    }
}

static void list(const char *when, int values)
{
    with_values = values;
    printf("== %s\n", when);
    list_cvars();
    list_pvars();
    list_categories();
}

int main(int argc, char **argv)
{
    int provided, rank = 0;
    skipped = argv + 1;
    expect(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), "MPI_T_init_thread", 0);
    list("before MPI_Init", 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0, x = 0; i < 10; ++i)
        MPI_Sendrecv_replace(&x, 1, MPI_INT, 0, 0, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    list("after MPI_Init", 1);
    MPI_Finalize();
    list("after MPI_Finalize", 0);
    /* no MPI_T_finalize: behind MPI_Finalize it ends the process in Open MPI 4.1 */
    return 0;
}
