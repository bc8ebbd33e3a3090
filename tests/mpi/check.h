/* SPDX-License-Identifier: MIT */
// What the MPI test programs share: start and end, lines of output that carry
// the rank, checks that count, data whose every byte is known from a seed, and
// MPI values in words. Nothing printed may depend on time, addresses or chance.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace check {

inline int rank = -1;
inline int size = 0;
inline std::atomic<int> wrong{0};
inline int arg_count = 0;
inline char **arg_list = nullptr;

// One line, one write: lines of several ranks or threads never mix.
inline void line(const char *word, const char *format, va_list args) {
    char text[900];
    int n = std::snprintf(text, sizeof text, "%d: %s", rank, word);
    n += std::vsnprintf(text + n, sizeof text - n - 1, format, args);
    if (n > int(sizeof text) - 2) n = int(sizeof text) - 2;
    text[n++] = '\n';
    std::fflush(stdout);
    if (write(1, text, n) != n) ++wrong;
}

[[gnu::format(printf, 1, 2)]] inline void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    line("", format, args);
    va_end(args);
}

// Returns what it was given; prints the first ten failures of a rank.
[[gnu::format(printf, 2, 3)]] inline bool expect(bool good, const char *format, ...) {
    if (good || ++wrong > 10) return good;
    va_list args;
    va_start(args, format);
    line("WRONG ", format, args);
    va_end(args);
    return good;
}

// begin() asks for a thread level; finish() ends MPI and gives main's result.
inline void begin(int argc, char **argv, int level = MPI_THREAD_SINGLE) {
    arg_count = argc;
    arg_list = argv;
    int provided = -1;
    if (level == MPI_THREAD_SINGLE) MPI_Init(&argc, &argv);
    else
        MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    expect(level == MPI_THREAD_SINGLE || provided >= level, "thread level %d", provided);
}

inline int verdict() {
    if (wrong) say("%d checks failed", wrong.load());
    else
        say("ok");
    return wrong ? 1 : 0;
}

inline int finish() {
    int code = verdict();
    MPI_Finalize();
    return code;
}

// Arguments: the word `long`, or name=number.
inline bool given(const char *word) {
    for (int i = 1; i < arg_count; ++i)
        if (!std::strcmp(arg_list[i], word)) return true;
    return false;
}

inline long number(const char *name, long otherwise) {
    std::size_t n = std::strlen(name);
    for (int i = 1; i < arg_count; ++i)
        if (!std::strncmp(arg_list[i], name, n) && arg_list[i][n] == '=')
            return std::atol(arg_list[i] + n + 1);
    return otherwise;
}

// Data: byte i of the message with this seed.
inline unsigned char byte_of(std::uint32_t seed, std::size_t i) {
    return static_cast<unsigned char>((seed * 2654435761u + std::uint32_t(i) * 40503u) >> 11);
}

inline void fill(void *data, std::size_t bytes, std::uint32_t seed) {
    auto *p = static_cast<unsigned char *>(data);
    for (std::size_t i = 0; i < bytes; ++i) p[i] = byte_of(seed, i);
}

inline bool same(const void *data, std::size_t bytes, std::uint32_t seed) {
    auto *p = static_cast<const unsigned char *>(data);
    unsigned char differ = 0;
    for (std::size_t i = 0; i < bytes; ++i) differ |= p[i] ^ byte_of(seed, i);
    return differ == 0;
}

inline std::vector<unsigned char> made(std::size_t bytes, std::uint32_t seed) {
    std::vector<unsigned char> data(bytes + 1);  // never a null address
    fill(data.data(), bytes, seed);
    return data;
}

// A receive buffer with guard bytes on both sides.
struct Guarded {
    static constexpr std::size_t edge = 32;
    std::size_t bytes;
    std::vector<unsigned char> all;
    explicit Guarded(std::size_t n) : bytes(n), all(n + 2 * edge, 0xA5) {}
    unsigned char *data() { return all.data() + edge; }
    bool untouched(std::size_t from) const {  // from this byte of data() on
        for (std::size_t i = 0; i < edge; ++i)
            if (all[i] != 0xA5) return false;
        for (std::size_t i = edge + from; i < all.size(); ++i)
            if (all[i] != 0xA5) return false;
        return true;
    }
    bool intact() const { return untouched(bytes); }
};

// Seeded numbers, the same on every rank and machine.
struct Random {
    std::uint64_t state;
    explicit Random(std::uint64_t seed) : state(seed * 0x9E3779B97F4A7C15ull + 1) {}
    std::uint32_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return std::uint32_t((state * 0x2545F4914F6CDD1Dull) >> 32);
    }
    int below(int n) { return int(next() % std::uint32_t(n)); }
    bool once_in(int n) { return below(n) == 0; }
};

// MPI values in words.
inline std::string in_words(int value) {
    if (value == MPI_UNDEFINED) return "undefined";
    return std::to_string(value);
}

inline std::string error_class(int error) {
    if (error == MPI_SUCCESS) return "success";
    char text[MPI_MAX_ERROR_STRING];
    int length = 0, value = -1;
    MPI_Error_class(error, &value);
    text[0] = 0;
    MPI_Error_string(value, text, &length);
    std::string words(text, length);
    if (words.empty()) return "class " + std::to_string(value);
    return words.substr(0, words.find(':'));
}

inline MPI_Status fresh_status() {  // marks what a call does not write
    MPI_Status status;
    std::memset(&status, 0, sizeof status);
    status.MPI_SOURCE = -55;
    status.MPI_TAG = -66;
    status.MPI_ERROR = 77;
    return status;
}

inline std::string in_words(const MPI_Status &status, MPI_Datatype type) {
    int count = -1, elements = -1, cancelled = -1;
    MPI_Get_count(&status, type, &count);
    MPI_Get_elements(&status, type, &elements);
    MPI_Test_cancelled(&status, &cancelled);
    return "source=" + std::to_string(status.MPI_SOURCE) +
           " tag=" + std::to_string(status.MPI_TAG) +
           " error=" + (status.MPI_ERROR == 77 ? "77" : error_class(status.MPI_ERROR)) +
           " count=" + in_words(count) + " elements=" + in_words(elements) +
           " cancelled=" + std::to_string(cancelled);
}

inline int count_of(const MPI_Status &status, MPI_Datatype type = MPI_BYTE) {
    int count = -1;
    MPI_Get_count(&status, type, &count);
    return count;
}

// Tests until true, at most this often: no wait without an end.
inline bool test_until_done(MPI_Request *request, MPI_Status *status = MPI_STATUS_IGNORE,
                            long times_max = 50'000'000) {
    int flag = 0;
    for (long i = 0; i < times_max && !flag; ++i) MPI_Test(request, &flag, status);
    return flag != 0;
}

}  // namespace check
