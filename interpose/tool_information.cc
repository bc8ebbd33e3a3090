// SPDX-License-Identifier: MIT
// MPI_T: settings are control variables, counters performance variables, both of one
// category. Ours come first, those of the real MPI keep their order behind them: the
// number of its variables grows when it loads components, ours is fixed. Whether a
// handle is ours follows from a table of those that were given out.
#include "life.hh"
#include "process.hh"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace storm::interpose {
namespace {

constexpr int kTextMax = 1024; // characters of a text, the ending zero among them

struct Counter {
    const char* name;
    std::uint64_t Counters::*field; // null: the mark, a ring's high water
    const char* help;
};
constexpr Counter kCounters[] = {
#define STORM_COUNTER(field, name, help) {"storm_" name, &Counters::field, help},
#define STORM_MARK(name, help) {"storm_" name, nullptr, help},
#include "counters.def"
#undef STORM_COUNTER
};

constexpr int kSettingsCount = 0
#define STORM_SETTING(field, type, name, kind, fallback, min, max, scope, help) +1
#include "settings.def"
#undef STORM_SETTING
    ;
constexpr int kCountersCount = static_cast<int>(std::size(kCounters));
constexpr int kCategories = 1;
constexpr const char* kCategory = "storm";
constexpr const char* kCategoryHelp = "settings and counters of storm, which carries messages in front of this MPI";

struct ControlHandle {
    int index;
};
struct PerformanceHandle {
    MPI_T_pvar_session session;
    int index;
    std::uint64_t base; // what was there at the last reset
};

std::mutex mutex; // MPI_T may be called by any thread, at any time
int opened = 0;
// What was given out. Made at the first use and never freed: a library that does
// nothing when it is loaded has no destructors of globals either.
struct GivenOut {
    std::vector<std::unique_ptr<ControlHandle>> controls;
    std::vector<std::unique_ptr<PerformanceHandle>> performances;
};
GivenOut& given()
{
    static GivenOut& out = *new GivenOut;
    return out;
}

template <class Object, class Handle>
Object* ours(const std::vector<std::unique_ptr<Object>>& all, Handle handle)
{
    for (const auto& one : all)
        if (one.get() == reinterpret_cast<Object*>(handle))
            return one.get();
    return nullptr;
}

template <class Object, class Predicate>
void drop(std::vector<std::unique_ptr<Object>>& all, Predicate predicate)
{
    all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& one) { return predicate(*one); }), all.end());
}

// As MPI_T gives texts: what fits into `length`, and the length that all of it needs.
void give_text(const char* text, char* to, int* length)
{
    if (length == nullptr)
        return;
    const int whole = static_cast<int>(std::strlen(text)) + 1;
    if (to != nullptr && *length > 0) {
        const auto n = static_cast<std::size_t>(std::min(*length, whole) - 1);
        std::memcpy(to, text, n);
        to[n] = '\0';
    }
    *length = whole;
}

template <class T>
void give(T* to, T value)
{
    if (to != nullptr)
        *to = value;
}

bool is_kind(const SettingInfo& info, const char* kind) { return std::strcmp(info.kind, kind) == 0; }

MPI_Datatype type_of(const SettingInfo& info)
{
    const RealMpi& real = process.real;
    return is_kind(info, "flag")                                ? real.type_int
           : is_kind(info, "count") || is_kind(info, "bytes") ? real.type_unsigned_long_long
                                                                : real.type_char;
}

const SettingInfo& setting(int index) { return Settings::table()[static_cast<std::size_t>(index)]; }

int class_of(const Counter& c)
{
    return c.field != nullptr ? MPI_T_PVAR_CLASS_COUNTER : MPI_T_PVAR_CLASS_HIGHWATERMARK;
}

std::uint64_t value_of(const PerformanceHandle& h)
{
    const Counter& c = kCounters[h.index];
    return (c.field == nullptr ? ring_high_water_now() : counters_now().*c.field) - h.base;
}

// The index of the real MPI's variable: it answers an index that is nobody's.
int behind(int index, int count) { return index < 0 ? index : index - count; }

// Shifts an index that the real MPI gave.
int shifted(int rc, int* index, int count)
{
    if (rc == MPI_SUCCESS && index != nullptr)
        *index += count;
    return rc;
}

bool is_ours(int index, int count) { return index >= 0 && index < count; }

} // namespace

// ---- life

int T_init_thread(int required, int* provided)
{
    const int rc = process.real.T_init_thread(required, provided);
    const std::lock_guard guard(mutex);
    opened += rc == MPI_SUCCESS ? 1 : 0;
    return rc;
}

int T_finalize(void)
{
    const int rc = process.real.T_finalize();
    const std::lock_guard guard(mutex);
    if (rc == MPI_SUCCESS && --opened == 0) {
        given().controls.clear();
        given().performances.clear();
    }
    return rc;
}

// ---- control variables: the settings

int T_cvar_get_num(int* num)
{
    return shifted(process.real.T_cvar_get_num(num), num, kSettingsCount);
}

int T_cvar_get_info(int index, char* name, int* name_len, int* verbosity, MPI_Datatype* datatype,
                    MPI_T_enum* enumtype, char* desc, int* desc_len, int* bind, int* scope)
{
    if (!is_ours(index, kSettingsCount))
        return process.real.T_cvar_get_info(behind(index, kSettingsCount), name, name_len, verbosity, datatype,
                                            enumtype, desc, desc_len, bind, scope);
    const std::lock_guard guard(mutex);
    if (opened == 0)
        return MPI_T_ERR_NOT_INITIALIZED;
    const SettingInfo& info = setting(index);
    give_text(info.name, name, name_len);
    give_text(info.help, desc, desc_len);
    give(verbosity, int{MPI_T_VERBOSITY_USER_BASIC});
    give(datatype, type_of(info));
    give(enumtype, MPI_T_ENUM_NULL);
    give(bind, int{MPI_T_BIND_NO_OBJECT});
    give(scope, info.agree ? int{MPI_T_SCOPE_ALL_EQ} : int{MPI_T_SCOPE_LOCAL});
    return MPI_SUCCESS;
}

int T_cvar_get_index(const char* name, int* index)
{
    for (int i = 0; name != nullptr && index != nullptr && i < kSettingsCount; ++i)
        if (std::strcmp(setting(i).name, name) == 0) {
            const std::lock_guard guard(mutex);
            if (opened == 0)
                return MPI_T_ERR_NOT_INITIALIZED;
            *index = i;
            return MPI_SUCCESS;
        }
    return shifted(process.real.T_cvar_get_index(name, index), index, kSettingsCount);
}

int T_cvar_handle_alloc(int index, void* object, MPI_T_cvar_handle* handle, int* count)
{
    if (!is_ours(index, kSettingsCount))
        return process.real.T_cvar_handle_alloc(behind(index, kSettingsCount), object, handle, count);
    const std::lock_guard guard(mutex);
    if (opened == 0)
        return MPI_T_ERR_NOT_INITIALIZED;
    given().controls.push_back(std::make_unique<ControlHandle>(ControlHandle{index}));
    give(handle, reinterpret_cast<MPI_T_cvar_handle>(given().controls.back().get()));
    give(count, type_of(setting(index)) == process.real.type_char ? kTextMax : 1);
    return MPI_SUCCESS;
}

int T_cvar_handle_free(MPI_T_cvar_handle* handle)
{
    const std::lock_guard guard(mutex);
    const ControlHandle* mine = handle == nullptr ? nullptr : ours(given().controls, *handle);
    if (mine == nullptr)
        return process.real.T_cvar_handle_free(handle);
    drop(given().controls, [&](const ControlHandle& h) { return &h == mine; });
    *handle = nullptr;
    return MPI_SUCCESS;
}

int T_cvar_read(MPI_T_cvar_handle handle, void* buf)
{
    const std::lock_guard guard(mutex);
    const ControlHandle* mine = ours(given().controls, handle);
    if (mine == nullptr)
        return process.real.T_cvar_read(handle, buf);
    if (buf == nullptr)
        return MPI_ERR_ARG;
    const SettingInfo& info = setting(mine->index);
    const std::string text = settings_now().value_text(info.name);
    int length = kTextMax;
    if (is_kind(info, "flag"))
        *static_cast<int*>(buf) = text == "1" ? 1 : 0;
    else if (is_kind(info, "count") || is_kind(info, "bytes"))
        *static_cast<unsigned long long*>(buf) = std::stoull(text);
    else
        give_text(text.c_str(), static_cast<char*>(buf), &length);
    return MPI_SUCCESS;
}

int T_cvar_write(MPI_T_cvar_handle handle, const void* buf)
{
    const std::lock_guard guard(mutex);
    const ControlHandle* mine = ours(given().controls, handle);
    if (mine == nullptr)
        return process.real.T_cvar_write(handle, buf);
    if (buf == nullptr)
        return MPI_ERR_ARG;
    if (!settings_open())
        return MPI_T_ERR_CVAR_SET_NEVER; // settings are read once
    const SettingInfo& info = setting(mine->index);
    std::string text;
    if (is_kind(info, "flag"))
        text = std::to_string(*static_cast<const int*>(buf));
    else if (is_kind(info, "count") || is_kind(info, "bytes"))
        text = std::to_string(*static_cast<const unsigned long long*>(buf));
    else
        text.assign(static_cast<const char*>(buf), strnlen(static_cast<const char*>(buf), kTextMax - 1));
    return set_before_init(info.name, text) ? MPI_SUCCESS : MPI_ERR_ARG;
}

// ---- performance variables: the counters

int T_pvar_get_num(int* num)
{
    return shifted(process.real.T_pvar_get_num(num), num, kCountersCount);
}

int T_pvar_get_info(int index, char* name, int* name_len, int* verbosity, int* var_class, MPI_Datatype* datatype,
                    MPI_T_enum* enumtype, char* desc, int* desc_len, int* bind, int* readonly, int* continuous,
                    int* atomic)
{
    if (!is_ours(index, kCountersCount))
        return process.real.T_pvar_get_info(behind(index, kCountersCount), name, name_len, verbosity, var_class,
                                            datatype, enumtype, desc, desc_len, bind, readonly, continuous, atomic);
    const std::lock_guard guard(mutex);
    if (opened == 0)
        return MPI_T_ERR_NOT_INITIALIZED;
    const bool counts = kCounters[index].field != nullptr;
    give_text(kCounters[index].name, name, name_len);
    give_text(kCounters[index].help, desc, desc_len);
    give(verbosity, int{MPI_T_VERBOSITY_USER_BASIC});
    give(var_class, class_of(kCounters[index]));
    give(datatype, process.real.type_unsigned_long_long);
    give(enumtype, MPI_T_ENUM_NULL);
    give(bind, int{MPI_T_BIND_NO_OBJECT});
    give(readonly, counts ? 0 : 1);
    give(continuous, 1);
    give(atomic, counts ? 1 : 0);
    return MPI_SUCCESS;
}

int T_pvar_get_index(const char* name, int var_class, int* index)
{
    for (int i = 0; name != nullptr && index != nullptr && i < kCountersCount; ++i)
        if (std::strcmp(kCounters[i].name, name) == 0) {
            const std::lock_guard guard(mutex);
            if (opened == 0)
                return MPI_T_ERR_NOT_INITIALIZED;
            if (var_class != class_of(kCounters[i]))
                return MPI_T_ERR_INVALID_NAME;
            *index = i;
            return MPI_SUCCESS;
        }
    return shifted(process.real.T_pvar_get_index(name, var_class, index), index, kCountersCount);
}

// A session is the real MPI's own; our handles remember it.
int T_pvar_session_create(MPI_T_pvar_session* session)
{
    return process.real.T_pvar_session_create(session);
}

int T_pvar_session_free(MPI_T_pvar_session* session)
{
    const MPI_T_pvar_session which = session != nullptr ? *session : nullptr;
    const int rc = process.real.T_pvar_session_free(session);
    const std::lock_guard guard(mutex);
    if (rc == MPI_SUCCESS)
        drop(given().performances, [&](const PerformanceHandle& h) { return h.session == which; });
    return rc;
}

int T_pvar_handle_alloc(MPI_T_pvar_session session, int index, void* object, MPI_T_pvar_handle* handle, int* count)
{
    if (!is_ours(index, kCountersCount))
        return process.real.T_pvar_handle_alloc(session, behind(index, kCountersCount), object, handle, count);
    const std::lock_guard guard(mutex);
    if (opened == 0)
        return MPI_T_ERR_NOT_INITIALIZED;
    if (session == nullptr)
        return MPI_T_ERR_INVALID_SESSION;
    given().performances.push_back(std::make_unique<PerformanceHandle>(PerformanceHandle{session, index, 0}));
    give(handle, reinterpret_cast<MPI_T_pvar_handle>(given().performances.back().get()));
    give(count, 1);
    return MPI_SUCCESS;
}

int T_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle* handle)
{
    const std::lock_guard guard(mutex);
    const PerformanceHandle* mine = handle == nullptr ? nullptr : ours(given().performances, *handle);
    if (mine == nullptr)
        return process.real.T_pvar_handle_free(session, handle);
    if (mine->session != session)
        return MPI_T_ERR_INVALID_HANDLE;
    drop(given().performances, [&](const PerformanceHandle& h) { return &h == mine; });
    *handle = MPI_T_PVAR_HANDLE_NULL;
    return MPI_SUCCESS;
}

// Ours are always counting: nothing can start or stop them.
int T_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    const std::lock_guard guard(mutex);
    const bool mine = ours(given().performances, handle) != nullptr;
    return mine ? MPI_T_ERR_PVAR_NO_STARTSTOP : process.real.T_pvar_start(session, handle);
}

int T_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    const std::lock_guard guard(mutex);
    const bool mine = ours(given().performances, handle) != nullptr;
    return mine ? MPI_T_ERR_PVAR_NO_STARTSTOP : process.real.T_pvar_stop(session, handle);
}

int T_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf)
{
    const std::lock_guard guard(mutex);
    const PerformanceHandle* mine = ours(given().performances, handle);
    if (mine == nullptr)
        return process.real.T_pvar_read(session, handle, buf);
    if (mine->session != session)
        return MPI_T_ERR_INVALID_HANDLE;
    if (buf == nullptr)
        return MPI_ERR_ARG;
    *static_cast<unsigned long long*>(buf) = value_of(*mine);
    return MPI_SUCCESS;
}

int T_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void* buf)
{
    const std::lock_guard guard(mutex);
    PerformanceHandle* mine = ours(given().performances, handle);
    if (mine == nullptr)
        return process.real.T_pvar_write(session, handle, buf);
    if (mine->session != session)
        return MPI_T_ERR_INVALID_HANDLE;
    if (buf == nullptr)
        return MPI_ERR_ARG;
    if (kCounters[mine->index].field == nullptr)
        return MPI_T_ERR_PVAR_NO_WRITE;
    mine->base += value_of(*mine) - *static_cast<const unsigned long long*>(buf);
    return MPI_SUCCESS;
}

int T_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    const std::lock_guard guard(mutex);
    if (handle == MPI_T_PVAR_ALL_HANDLES)
        for (const auto& one : given().performances)
            if (one->session == session && kCounters[one->index].field != nullptr)
                one->base += value_of(*one);
    PerformanceHandle* mine = ours(given().performances, handle);
    if (mine == nullptr)
        return process.real.T_pvar_reset(session, handle);
    if (mine->session != session)
        return MPI_T_ERR_INVALID_HANDLE;
    if (kCounters[mine->index].field == nullptr)
        return MPI_T_ERR_PVAR_NO_WRITE;
    mine->base += value_of(*mine);
    return MPI_SUCCESS;
}

int T_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf)
{
    const std::lock_guard guard(mutex);
    PerformanceHandle* mine = ours(given().performances, handle);
    if (mine == nullptr)
        return process.real.T_pvar_readreset(session, handle, buf);
    if (mine->session != session)
        return MPI_T_ERR_INVALID_HANDLE;
    if (buf == nullptr)
        return MPI_ERR_ARG;
    if (kCounters[mine->index].field == nullptr)
        return MPI_T_ERR_PVAR_NO_ATOMIC;
    const std::uint64_t value = value_of(*mine);
    *static_cast<unsigned long long*>(buf) = value;
    mine->base += value;
    return MPI_SUCCESS;
}

// ---- the category

int T_category_get_num(int* num)
{
    return shifted(process.real.T_category_get_num(num), num, kCategories);
}

int T_category_get_info(int index, char* name, int* name_len, char* desc, int* desc_len, int* cvars, int* pvars,
                        int* categories)
{
    if (!is_ours(index, kCategories))
        return process.real.T_category_get_info(behind(index, kCategories), name, name_len, desc, desc_len, cvars,
                                                pvars, categories);
    const std::lock_guard guard(mutex);
    if (opened == 0)
        return MPI_T_ERR_NOT_INITIALIZED;
    give_text(kCategory, name, name_len);
    give_text(kCategoryHelp, desc, desc_len);
    give(cvars, kSettingsCount);
    give(pvars, kCountersCount);
    give(categories, 0);
    return MPI_SUCCESS;
}

int T_category_get_index(const char* name, int* index)
{
    if (name == nullptr || index == nullptr || std::strcmp(name, kCategory) != 0)
        return shifted(process.real.T_category_get_index(name, index), index, kCategories);
    const std::lock_guard guard(mutex);
    if (opened == 0)
        return MPI_T_ERR_NOT_INITIALIZED;
    *index = 0;
    return MPI_SUCCESS;
}

namespace {

// What a category holds: of ours all indices below `count`, of the real MPI's what it
// says, shifted. It writes at most `length` of them, but does not tell how many: it
// has `held` of them.
template <class Get>
int contents(int category, int length, int* indices, int count, int held, Get get)
{
    if (!is_ours(category, kCategories)) {
        const int rc = get(behind(category, kCategories), length, indices);
        for (int i = 0; rc == MPI_SUCCESS && indices != nullptr && i < std::min(length, held); ++i)
            indices[i] += count;
        return rc;
    }
    const std::lock_guard guard(mutex);
    if (opened == 0)
        return MPI_T_ERR_NOT_INITIALIZED;
    for (int i = 0; indices != nullptr && i < std::min(length, count); ++i)
        indices[i] = i;
    return MPI_SUCCESS;
}

struct Held {
    int cvars = 0, pvars = 0, categories = 0;
    explicit Held(int category)
    {
        if (!is_ours(category, kCategories))
            process.real.T_category_get_info(behind(category, kCategories), nullptr, nullptr, nullptr, nullptr,
                                             &cvars, &pvars, &categories);
    }
};

} // namespace

int T_category_get_cvars(int category, int length, int indices[])
{
    return contents(category, length, indices, kSettingsCount, Held(category).cvars,
                    process.real.T_category_get_cvars);
}

int T_category_get_pvars(int category, int length, int indices[])
{
    return contents(category, length, indices, kCountersCount, Held(category).pvars,
                    process.real.T_category_get_pvars);
}

int T_category_get_categories(int category, int length, int indices[])
{
    if (is_ours(category, kCategories)) { // ours holds none
        const std::lock_guard guard(mutex);
        return opened == 0 ? MPI_T_ERR_NOT_INITIALIZED : MPI_SUCCESS;
    }
    return contents(category, length, indices, kCategories, Held(category).categories,
                    process.real.T_category_get_categories);
}

} // namespace storm::interpose
