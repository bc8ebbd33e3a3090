/* SPDX-License-Identifier: MIT */
/* The variables of storm through MPI_T as the standard allows: written before MPI_Init,
 * fixed afterwards, counting in sessions of their own, there after MPI_Finalize. Prints
 * nothing when all is well. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int wrong;

#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s\n", __LINE__, #condition); \
            ++wrong; \
        } \
    } while (0)

typedef unsigned long long number;

static MPI_T_cvar_handle cvar(const char *name)
{
    int index = -1, count;
    MPI_T_cvar_handle handle = NULL;
    EXPECT(MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS);
    EXPECT(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS);
    return handle;
}

static MPI_T_pvar_handle pvar(MPI_T_pvar_session session, const char *name, int class)
{
    int index = -1, count = 0;
    MPI_T_pvar_handle handle = NULL;
    EXPECT(MPI_T_pvar_get_index(name, class, &index) == MPI_SUCCESS);
    EXPECT(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
    return handle;
}

static number value(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    number n = 4711;
    EXPECT(MPI_T_pvar_read(session, handle, &n) == MPI_SUCCESS);
    return n;
}

static void send_to_self(int times)
{
    for (int i = 0, x = 0; i < times; ++i)
        MPI_Sendrecv_replace(&x, 1, MPI_INT, 0, 0, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int provided, index, count, n, flag;
    char text[1024], name[8];
    number bytes;
    MPI_T_cvar_handle given;

    EXPECT(MPI_T_cvar_get_num(&n) == MPI_T_ERR_NOT_INITIALIZED);
    EXPECT(MPI_T_cvar_get_index("STORM_TAGS", &index) == MPI_T_ERR_NOT_INITIALIZED);
    EXPECT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    EXPECT(MPI_T_cvar_get_index("STORM_TAGS", &index) == MPI_SUCCESS);
    EXPECT(MPI_T_cvar_handle_alloc(index, NULL, &given, &count) == MPI_SUCCESS && count == 1024);
    EXPECT(MPI_T_finalize() == MPI_SUCCESS);
    EXPECT(MPI_T_cvar_read(given, text) == MPI_T_ERR_NOT_INITIALIZED);
    EXPECT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);

    /* names that are cut, and their whole length */
    n = sizeof name;
    EXPECT(MPI_T_cvar_get_info(0, name, &n, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
    EXPECT(n == (int)sizeof "STORM_DISABLE" && strcmp(name, "STORM_D") == 0);
    n = 0;
    EXPECT(MPI_T_cvar_get_info(0, name, &n, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
    EXPECT(n == (int)sizeof "STORM_DISABLE" && strcmp(name, "STORM_D") == 0);
    EXPECT(MPI_T_cvar_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) != MPI_SUCCESS);
    EXPECT(MPI_T_cvar_get_info(1 << 30, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) != MPI_SUCCESS);

    /* settings may be written until MPI_Init reads them */
    MPI_T_cvar_handle eager = cvar("STORM_EAGER_MAX"), tags = cvar("STORM_TAGS"), disable = cvar("STORM_DISABLE");
    EXPECT(MPI_T_cvar_read(eager, &bytes) == MPI_SUCCESS && bytes == 65536);
    bytes = 4096;
    EXPECT(MPI_T_cvar_write(eager, &bytes) == MPI_SUCCESS);
    bytes = (number)1 << 40;
    EXPECT(MPI_T_cvar_write(eager, &bytes) != MPI_SUCCESS);
    EXPECT(MPI_T_cvar_write(tags, "1-5,9") == MPI_SUCCESS);
    EXPECT(MPI_T_cvar_write(tags, "5-1") != MPI_SUCCESS);
    EXPECT(MPI_T_cvar_read(disable, &flag) == MPI_SUCCESS && flag == 0);
    EXPECT(MPI_T_cvar_read(eager, &bytes) == MPI_SUCCESS && bytes == 4096);

    MPI_T_pvar_session one, two;
    EXPECT(MPI_T_pvar_session_create(&one) == MPI_SUCCESS && MPI_T_pvar_session_create(&two) == MPI_SUCCESS);
    MPI_T_pvar_handle early = pvar(one, "storm_self_messages", MPI_T_PVAR_CLASS_COUNTER);
    EXPECT(value(one, early) == 0);
    EXPECT(MPI_T_pvar_get_index("storm_self_messages", MPI_T_PVAR_CLASS_TIMER, &index) != MPI_SUCCESS);

    MPI_Init(&argc, &argv);
    EXPECT(MPI_T_cvar_read(eager, &bytes) == MPI_SUCCESS && bytes == 4096);
    EXPECT(MPI_T_cvar_read(tags, text) == MPI_SUCCESS && strcmp(text, "1-5,9") == 0);
    EXPECT(MPI_T_cvar_write(eager, &bytes) == MPI_T_ERR_CVAR_SET_NEVER);

    send_to_self(3);
    EXPECT(value(one, early) == 3);
    MPI_T_pvar_handle late = pvar(two, "storm_self_messages", MPI_T_PVAR_CLASS_COUNTER);
    EXPECT(value(two, late) == 3);
    EXPECT(MPI_T_pvar_reset(two, late) == MPI_SUCCESS && value(two, late) == 0 && value(one, early) == 3);
    send_to_self(2);
    EXPECT(value(two, late) == 2 && value(one, early) == 5);
    EXPECT(MPI_T_pvar_readreset(two, late, &bytes) == MPI_SUCCESS && bytes == 2 && value(two, late) == 0);
    bytes = 100;
    EXPECT(MPI_T_pvar_write(two, late, &bytes) == MPI_SUCCESS && value(two, late) == 100);
    EXPECT(MPI_T_pvar_reset(one, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    EXPECT(value(one, early) == 0 && value(two, late) == 100);
    EXPECT(MPI_T_pvar_start(one, early) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    EXPECT(MPI_T_pvar_stop(one, early) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    EXPECT(MPI_T_pvar_read(two, early, &bytes) == MPI_T_ERR_INVALID_HANDLE);

    MPI_T_pvar_handle high = pvar(one, "storm_ring_high_water_bytes", MPI_T_PVAR_CLASS_HIGHWATERMARK);
    EXPECT(MPI_T_pvar_write(one, high, &bytes) == MPI_T_ERR_PVAR_NO_WRITE);
    EXPECT(MPI_T_pvar_reset(one, high) == MPI_T_ERR_PVAR_NO_WRITE);
    EXPECT(MPI_T_pvar_readreset(one, high, &bytes) == MPI_T_ERR_PVAR_NO_ATOMIC);
    EXPECT(MPI_T_pvar_handle_free(one, &high) == MPI_SUCCESS && high == MPI_T_PVAR_HANDLE_NULL);

    EXPECT(MPI_T_category_get_index("storm", &index) == MPI_SUCCESS && index == 0);
    EXPECT(MPI_T_category_get_info(0, NULL, NULL, NULL, NULL, &n, &count, &flag) == MPI_SUCCESS);
    EXPECT(n > 10 && count > 10 && flag == 0);

    send_to_self(4);
    MPI_Finalize();
    EXPECT(value(one, early) == 4);
    EXPECT(MPI_T_cvar_read(eager, &bytes) == MPI_SUCCESS && bytes == 4096);
    EXPECT(MPI_T_cvar_write(eager, &bytes) == MPI_T_ERR_CVAR_SET_NEVER);
    EXPECT(MPI_T_cvar_handle_free(&eager) == MPI_SUCCESS && eager == NULL);
    EXPECT(MPI_T_pvar_session_free(&one) == MPI_SUCCESS);
    EXPECT(MPI_T_pvar_session_free(&two) == MPI_SUCCESS);
    /* no MPI_T_finalize: behind MPI_Finalize it ends the process in Open MPI 4.1 */
    return wrong != 0;
}
