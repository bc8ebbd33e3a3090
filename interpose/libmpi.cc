// SPDX-License-Identifier: MIT
// Finds the real MPI through its own handle: it may have been loaded RTLD_LOCAL, and a
// search by name alone could find us, a tool, or nothing.
#include "libmpi.hh"
#include "process.hh"

#include <dlfcn.h>
#include <link.h>

namespace storm::interpose {

constinit Process process;
thread_local constinit int Entered::depth_ = 0;

namespace {

// What depends on Open MPI: its libraries' names and the symbols behind its handles.
constexpr const char* kSonames[] = {"libmpi.so.40"};

void* libmpi = nullptr;

template <class T>
bool resolve(T& target, const char* name)
{
    target = reinterpret_cast<T>(dlsym(libmpi, name));
    return target != nullptr;
}

// A predefined handle is the address of a variable. A program that is not
// position-independent has its own copy of it, which the whole process then uses: so
// the global scope is asked first, libmpi (which may be loaded RTLD_LOCAL) second.
template <class T>
bool resolve_handle(T& target, const char* name)
{
    target = reinterpret_cast<T>(dlsym(RTLD_DEFAULT, name));
    return target != nullptr || resolve(target, name);
}

bool load()
{
    for (const char* soname : kSonames)
        if (libmpi == nullptr)
            libmpi = dlopen(soname, RTLD_NOLOAD | RTLD_LAZY);
    if (libmpi == nullptr)
        return false;
    RealMpi& real = process.real;
    bool all = true;
#define STORM_REAL(name) all = resolve(real.name, "PMPI_" #name) && all;
#include "real_calls.inc"
#undef STORM_REAL
    all = resolve_handle(real.comm_world, "ompi_mpi_comm_world") && all;
    all = resolve_handle(real.comm_self, "ompi_mpi_comm_self") && all;
    all = resolve_handle(real.comm_null, "ompi_mpi_comm_null") && all;
    all = resolve_handle(real.request_null, "ompi_request_null") && all;
    all = resolve_handle(real.request_done, "ompi_request_empty") && all;
    all = resolve_handle(real.message_null, "ompi_message_null") && all;
    all = resolve_handle(real.message_no_proc, "ompi_message_no_proc") && all;
    all = resolve_handle(real.datatype_null, "ompi_mpi_datatype_null") && all;
    all = resolve_handle(real.byte, "ompi_mpi_byte") && all;
    all = resolve_handle(real.int64, "ompi_mpi_int64_t") && all;
    all = resolve_handle(real.type_int, "ompi_mpi_int") && all;
    all = resolve_handle(real.type_unsigned_long_long, "ompi_mpi_unsigned_long_long") && all;
    all = resolve_handle(real.type_char, "ompi_mpi_char") && all;
    all = resolve_handle(real.op_max, "ompi_mpi_op_max") && all;
    all = resolve_handle(real.op_sum, "ompi_mpi_op_sum") && all;
    all = resolve_handle(real.errors_return, "ompi_mpi_errors_return") && all;
    all = resolve_handle(real.info_null, "ompi_mpi_info_null") && all;
    all = resolve(real.progress, "opal_progress") && all;
    return all;
}

} // namespace

bool serving()
{
    static const bool found = load();
    return found;
}

NextScope::NextScope(const void* caller)
{
    Dl_info unused;
    link_map* library = nullptr;
    if (dlsym(RTLD_NEXT, "PMPI_Init") == nullptr &&
        dladdr1(caller, &unused, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP) != 0)
        local_ = dlopen(library->l_name, RTLD_NOLOAD | RTLD_LAZY);
}

NextScope::~NextScope()
{
    if (local_ != nullptr)
        dlclose(local_);
}

void* NextScope::find(const char* name) const
{
    void* next = local_ != nullptr ? dlsym(local_, name) : dlsym(RTLD_NEXT, name);
    Dl_info theirs, ours;
    const bool found = next != nullptr && dladdr(next, &theirs) != 0 &&
                       dladdr(reinterpret_cast<void*>(&serving), &ours) != 0;
    return found && theirs.dli_fbase != ours.dli_fbase ? next : nullptr;
}

void* own_symbol(const char* name)
{
    return dlsym(libmpi, name);
}

namespace open_mpi {

bool register_progress(int (*callback)())
{
    int (*enter)(int (*)()) = nullptr;
    return resolve(enter, "opal_progress_register") && enter(callback) == 0;
}

void unregister_progress(int (*callback)())
{
    int (*leave)(int (*)()) = nullptr;
    if (resolve(leave, "opal_progress_unregister"))
        leave(callback);
}

bool known_build(std::string& why)
{
    const RealMpi& real = process.real;
    // Fortran bindings read a request's index from the structure itself
    for (int i = 0; i < 2; ++i) {
        MPI_Request requests[2];
        bool there = true;
        for (int k = 0; k < 2; ++k)
            real.Recv_init(nullptr, 0, real.byte, 0, 0, real.comm_self, &requests[k]);
        for (auto& request : requests) {
            const MPI_Fint told = real.Request_c2f(request); // it may be given only now
            std::int32_t index = -1;
            std::memcpy(&index, reinterpret_cast<const std::byte*>(request) + kFortranIndexOffset,
                        sizeof index);
            there = there && told == index;
        }
        for (auto& request : requests)
            real.Request_free(&request);
        if (!there) {
            why = "this build of Open MPI keeps Fortran request handles elsewhere";
            return false;
        }
    }
    MPI_Request done;
    real.Isend(nullptr, 0, real.byte, MPI_PROC_NULL, 0, real.comm_self, &done);
    if (done != real.request_done) {
        why = "this build of Open MPI has no shared complete request";
        return false;
    }
    MPI_Status status;
    std::memset(&status, 0x5a, sizeof status);
    real.Status_set_elements_x(&status, real.byte, 4711);
    real.Status_set_cancelled(&status, 1);
    if (status._ucount != 4711 || status._cancelled != 1) {
        why = "this build of Open MPI lays out MPI_Status differently";
        return false;
    }
    return true;
}

namespace {

// The place of a variable of a transport that MPI_Init has loaded. The tools interface
// would load all others too, with all their libraries.
bool read_size(const char* name, std::uint64_t& value)
{
    int (*find)(const char*, int*) = nullptr;
    int (*get)(int, void*, void*, void*) = nullptr;
    int index = -1;
    const std::size_t* place = nullptr;
    if (!resolve(find, "mca_base_var_find_by_name") || !resolve(get, "mca_base_var_get_value") ||
        find(name, &index) != 0 || get(index, &place, nullptr, nullptr) != 0 || place == nullptr)
        return false;
    value = *place;
    return true;
}

} // namespace

std::uint64_t eager_limit(bool one_node, std::string& from)
{
    std::uint64_t largest = 0;
    // a transport that is not loaded has no variable
    static constexpr const char* kOnNode[] = {"btl_vader_eager_limit", "btl_sm_eager_limit"};
    static constexpr const char* kBetween[] = {"btl_tcp_eager_limit", "btl_openib_eager_limit",
                                               "btl_ofi_eager_limit", "btl_usnic_eager_limit",
                                               "btl_ugni_eager_limit"};
    const auto look = [&](const char* name) {
        std::uint64_t value = 0;
        if (read_size(name, value) && value > largest) {
            largest = value;
            from = name;
        }
    };
    for (const char* name : kOnNode)
        look(name);
    for (const char* name : kBetween)
        if (!one_node)
            look(name);
    return largest;
}

} // namespace open_mpi
} // namespace storm::interpose
