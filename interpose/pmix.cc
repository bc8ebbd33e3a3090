// SPDX-License-Identifier: MIT
#include "pmix.hh"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pmix.h>

namespace storm::interpose {
namespace {

decltype(&PMIx_Init) pmix_init;
decltype(&PMIx_Finalize) pmix_finalize;
decltype(&PMIx_Put) pmix_put;
decltype(&PMIx_Commit) pmix_commit;
decltype(&PMIx_Get) pmix_get;

template <class T>
bool resolve(void* library, T& target, const char* name)
{
    target = reinterpret_cast<T>(dlsym(library, name));
    return target != nullptr;
}

} // namespace

bool Pmix::open(std::string& why)
{
    // PMIx_Init in a process without a server crashes inside Open MPI later on.
    const char* rank = secure_getenv("PMIX_RANK");
    if (secure_getenv("PMIX_NAMESPACE") == nullptr || rank == nullptr) {
        why = "no PMIx launcher";
        return false;
    }
    bool server = false;
    for (const char* name : {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                             "PMIX_SERVER_URI21", "PMIX_SERVER_URI2", "PMIX_SERVER_URI"})
        server = server || secure_getenv(name) != nullptr;
    if (!server) {
        why = "no PMIx server";
        return false;
    }
    library_ = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
    if (library_ == nullptr || !resolve(library_, pmix_init, "PMIx_Init") ||
        !resolve(library_, pmix_finalize, "PMIx_Finalize") ||
        !resolve(library_, pmix_put, "PMIx_Put") || !resolve(library_, pmix_commit, "PMIx_Commit") ||
        !resolve(library_, pmix_get, "PMIx_Get")) {
        why = "libpmix.so.2 cannot be loaded";
        return false;
    }
    pmix_proc_t me;
    if (pmix_init(&me, nullptr, 0) != PMIX_SUCCESS) {
        why = "the PMIx server does not answer";
        return false;
    }
    static_assert(sizeof me.nspace == sizeof job_);
    std::memcpy(job_, me.nspace, sizeof job_);
    rank_ = static_cast<int>(me.rank);
    open_ = true;
    return true;
}

void Pmix::close()
{
    if (open_)
        pmix_finalize(nullptr, 0);
    open_ = false;
}

bool Pmix::put(const char* key, const std::string& value)
{
    pmix_value_t v{};
    v.type = PMIX_STRING;
    v.data.string = const_cast<char*>(value.c_str());
    return open_ && pmix_put(PMIX_GLOBAL, key, &v) == PMIX_SUCCESS && pmix_commit() == PMIX_SUCCESS;
}

bool Pmix::get(int rank, const char* key, int seconds, std::string& value) const
{
    if (!open_)
        return false;
    pmix_proc_t peer{};
    std::memcpy(peer.nspace, job_, sizeof job_);
    peer.rank = static_cast<pmix_rank_t>(rank);
    // Not PMIX_OPTIONAL: that answers from local data, differently on different ranks.
    pmix_info_t timeout{};
    std::strncpy(timeout.key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
    timeout.value.type = PMIX_INT;
    timeout.value.data.integer = seconds;
    pmix_value_t* found = nullptr;
    if (pmix_get(&peer, key, &timeout, 1, &found) != PMIX_SUCCESS || found == nullptr)
        return false;
    const bool text = found->type == PMIX_STRING && found->data.string != nullptr;
    if (text) {
        value = found->data.string;
        std::free(found->data.string);
    }
    std::free(found);
    return text;
}

} // namespace storm::interpose
