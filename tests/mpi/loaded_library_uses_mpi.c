/* SPDX-License-Identifier: MIT */
// A program without MPI loads a library with it, RTLD_LOCAL, as interpreters do; the
// library may bring a tool along.
// run: ranks=1,2 timeout=30 args=libloaded_library.so
// run: ranks=2 timeout=30 args=libloaded_library_with_tool.so
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    char path[4096];
    const char *slash = strrchr(argv[0], '/');
    int folder = slash ? (int)(slash - argv[0]) : 0;
    snprintf(path, sizeof path, "%.*s/%s", slash ? folder : 1, slash ? argv[0] : ".",
             argc > 1 ? argv[1] : "libloaded_library.so");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("WRONG %s\n", dlerror());
        return 2;
    }
    int (*exchange)(int *, char ***) = NULL;
    void *symbol = dlsym(library, "exchange_in_library");
    memcpy(&exchange, &symbol, sizeof exchange);
    return exchange ? exchange(&argc, &argv) : 3;
}
