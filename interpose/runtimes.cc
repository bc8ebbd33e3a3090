// SPDX-License-Identifier: MIT
#include "runtimes.hh"

#include "real_clock.hh"

#include <dlfcn.h>
#include <link.h>

#include <cstring>

namespace storm::interpose {
namespace {

// A driver maps a device's memory with several system calls; in less time than this no
// page that the CPU had can be a device's.
constexpr std::uint64_t kHostFor_us = 2;
constexpr unsigned kAskAgainAfter = 1024;
constexpr std::uintptr_t kPageBits = 12;

template <class Function>
bool find(Function& function, void* library, const char* name)
{
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

// ---- the CUDA driver: its own interface, which keeps no error of ours for the program

namespace cuda {

constexpr int kMemoryType = 2; // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned kUnregistered = 0, kHost = 1;
constexpr int kSuccess = 0, kInvalidValue = 1, kNotInitialized = 3, kDeinitialized = 4;

int (*attribute)(void* value, int what, unsigned long long address) = nullptr;
int (*range)(unsigned long long* base, std::size_t* bytes, unsigned long long address) = nullptr;

bool load(void* library)
{
    return find(attribute, library, "cuPointerGetAttribute") && find(range, library, "cuMemGetAddressRange_v2");
}

// Memory that it does not know is the CPU's. Any other trouble is for the real MPI to meet.
bool ask(std::uintptr_t address, std::uintptr_t& begin, std::uintptr_t& end)
{
    unsigned type = kUnregistered;
    const int rc = attribute(&type, kMemoryType, address);
    if (rc == kInvalidValue || rc == kNotInitialized || rc == kDeinitialized)
        return false;
    if (rc == kSuccess && (type == kUnregistered || type == kHost))
        return false;
    unsigned long long base = 0;
    std::size_t bytes = 0;
    if (rc == kSuccess && range(&base, &bytes, address) == kSuccess) {
        begin = base;
        end = base + bytes;
    }
    return true;
}

} // namespace cuda

// ---- HIP

namespace hip {

// The head of hipPointerAttribute_t. The numbers of its types changed with version 6,
// its pointers tell the same in all.
struct Attributes {
    int type, device;
    void *on_device, *on_host;
    int managed;
    unsigned flags;
    std::uint64_t spare[8]; // for versions that add to it
};

int (*attributes)(Attributes* told, const void* address) = nullptr;
int (*range)(void** base, std::size_t* bytes, void* address) = nullptr;
int (*last_error)() = nullptr, (*peek_error)() = nullptr;

bool load(void* library)
{
    return find(attributes, library, "hipPointerGetAttributes") &&
           find(range, library, "hipMemGetAddressRange") && find(last_error, library, "hipGetLastError") &&
           find(peek_error, library, "hipPeekAtLastError");
}

// It keeps the last error for the program to ask for. One that waits there must stay: then
// nothing is asked, and the message goes by the real MPI.
bool ask(std::uintptr_t address, std::uintptr_t& begin, std::uintptr_t& end)
{
    if (peek_error() != 0)
        return true;
    Attributes told{};
    const bool unknown = attributes(&told, reinterpret_cast<const void*>(address)) != 0;
    if (unknown)
        last_error();
    if (unknown || told.on_device == nullptr || (told.on_host != nullptr && told.managed == 0))
        return false;
    void* base = nullptr;
    std::size_t bytes = 0;
    if (range(&base, &bytes, reinterpret_cast<void*>(address)) != 0) {
        last_error();
        return true;
    }
    begin = reinterpret_cast<std::uintptr_t>(base);
    end = begin + bytes;
    return true;
}

} // namespace hip

// Pages of this thread that were the CPU's a moment ago.
struct HostPage {
    std::uintptr_t page;
    std::uint64_t since;
};
constexpr std::size_t kHostPages = 16;
thread_local constinit HostPage host_pages[kHostPages] = {};

} // namespace

// What a walk over the loaded libraries finds.
struct Runtimes::Seen {
    Runtimes* self; // null: only the count is wanted
    std::uint64_t loads;
    std::array<const char*, 2> libraries;
};

Runtimes::Runtimes(const Log& log, std::uint64_t ticks_per_us)
    : log_(log), host_for_(kHostFor_us * ticks_per_us),
      runtimes_{{{"CUDA", "libcuda.so", cuda::load, cuda::ask},
                 {"HIP", "libamdhip64.so", hip::load, hip::ask}}}
{
    Seen seen{nullptr, 0, {}};
    dl_iterate_phdr(see, &seen);
    const std::uint64_t* word = word_of_loader(seen.loads);
    loads_.store(word != nullptr ? word : &own_count_, std::memory_order_relaxed); // relaxed: nobody else is here yet
    find_runtimes();
}

int Runtimes::see(dl_phdr_info* info, std::size_t, void* found)
{
    Seen& seen = *static_cast<Seen*>(found);
    seen.loads = info->dlpi_adds;
    if (seen.self == nullptr)
        return 1;
    const char* slash = std::strrchr(info->dlpi_name, '/');
    const char* name = slash != nullptr ? slash + 1 : info->dlpi_name;
    for (std::size_t i = 0; i < seen.libraries.size(); ++i)
        if (const char* file = seen.self->runtimes_[i].file; std::strncmp(name, file, std::strlen(file)) == 0)
            seen.libraries[i] = info->dlpi_name;
    return 0;
}

// glibc counts what it loads in a word of its own, which is not published by name: it is
// the one that has the same value, apart from the number of libraries at the beginning.
// Null where there is none or more than one. `look` checks it ever after.
const std::uint64_t* Runtimes::word_of_loader(std::uint64_t loads)
{
    constexpr std::size_t kNumberOfLibraries = 1;
    void* loader = dlsym(RTLD_DEFAULT, "_rtld_global");
    Dl_info unused;
    const ElfW(Sym)* symbol = nullptr;
    if (loader == nullptr || dladdr1(loader, &unused, const_cast<void**>(reinterpret_cast<const void**>(&symbol)),
                                     RTLD_DL_SYMENT) == 0 || symbol == nullptr)
        return nullptr;
    const auto* words = static_cast<const std::uint64_t*>(loader);
    const std::uint64_t* found = nullptr;
    for (std::size_t i = 0; i < symbol->st_size / sizeof *words; ++i) {
        // relaxed: another thread may be loading something; `look` would notice
        const std::uint64_t value =
            std::atomic_ref(const_cast<std::uint64_t&>(words[i])).load(std::memory_order_relaxed);
        if (value != loads || i == kNumberOfLibraries)
            continue;
        if (found != nullptr)
            return nullptr;
        found = words + i;
    }
    return found;
}

void Runtimes::look()
{
    const std::uint64_t before = loads_now();
    Seen seen{nullptr, 0, {}};
    dl_iterate_phdr(see, &seen);
    // relaxed: read by possible()
    std::atomic_ref(own_count_).store(seen.loads, std::memory_order_relaxed);
    if (seen.loads < before || seen.loads > loads_now())
        loads_.store(&own_count_, std::memory_order_relaxed); // relaxed: either word will do
    // relaxed: a hint, find_runtimes looks again
    if (seen.loads != counted_.load(std::memory_order_relaxed))
        find_runtimes();
}

// False: another thread is at it.
bool Runtimes::find_runtimes()
{
    const std::unique_lock finding(finding_, std::try_to_lock);
    if (!finding)
        return false;
    Seen seen{this, 0, {}};
    dl_iterate_phdr(see, &seen);
    // relaxed: read by possible()
    std::atomic_ref(own_count_).store(seen.loads, std::memory_order_relaxed);
    bool any = false;
    for (std::size_t i = 0; i < runtimes_.size(); ++i) {
        Runtime& runtime = runtimes_[i];
        bool loaded = runtime.loaded.load(std::memory_order_relaxed); // relaxed: written here alone
        if (seen.libraries[i] != nullptr && !loaded) {
            // kept: it may not go while we ask it
            void* library = dlopen(seen.libraries[i], RTLD_NOLOAD | RTLD_LAZY);
            loaded = library != nullptr && runtime.load(library);
            // release: pairs with the acquire in ask
            runtime.loaded.store(loaded, std::memory_order_release);
            if (loaded)
                log_.info("%s is loaded: messages from and to its memory go by the real MPI", runtime.name);
        }
        any = any || loaded;
    }
    // relaxed: read by possible(); the loader's count is never 0
    without_.store(any ? 0 : seen.loads, std::memory_order_relaxed);
    // release: pairs with the acquire in holds, which then sees what is loaded
    counted_.store(seen.loads, std::memory_order_release);
    return true;
}

bool Runtimes::holds(const void* where)
{
    const auto address = reinterpret_cast<std::uintptr_t>(where);
    HostPage& page = host_pages[(address >> kPageBits) % kHostPages];
    const std::uint64_t now = RealClock::counter();
    if (page.page == address >> kPageBits && now - page.since < host_for_)
        return false;
    // acquire: pairs with the release in find_runtimes
    if (loads_now() != counted_.load(std::memory_order_acquire) && !find_runtimes())
        return true;
    if (known(address) || ask(address))
        return true;
    page = {address >> kPageBits, now};
    return false;
}

// An allocation that was freed may be the CPU's memory by now: it is asked for again, seldom.
bool Runtimes::known(std::uintptr_t address)
{
    const std::lock_guard lock(lock_);
    for (Range& range : ranges_)
        if (address - range.begin < range.end - range.begin) {
            if (++range.asked < kAskAgainAfter)
                return true;
            range = {};
        }
    return false;
}

// No lock is held over a runtime's calls.
bool Runtimes::ask(std::uintptr_t address)
{
    for (const Runtime& runtime : runtimes_) {
        std::uintptr_t begin = 0, end = 0;
        // acquire: pairs with the release in find_runtimes
        if (!runtime.loaded.load(std::memory_order_acquire) || !runtime.ask(address, begin, end))
            continue;
        if (begin <= address && address < end) {
            const std::lock_guard lock(lock_);
            ranges_[next_range_++ % ranges_.size()] = {begin, end, 0};
        }
        return true;
    }
    return false;
}

} // namespace storm::interpose
