// SPDX-License-Identifier: MIT
#include "crc32c.hh"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace storm::wire {
namespace {

constexpr std::array<std::uint32_t, 256> make_table()
{
    constexpr std::uint32_t kReversed = 0x82f63b78;
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t rest = i;
        for (int bit = 0; bit < 8; ++bit)
            rest = rest >> 1 ^ ((rest & 1) != 0 ? kReversed : 0);
        table[i] = rest;
    }
    return table;
}
constexpr auto kTable = make_table();

std::uint64_t word_at(const std::byte* at)
{
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

std::uint32_t raw_by_table(std::uint32_t rest, const std::byte* at, std::size_t bytes)
{
    for (; bytes != 0; --bytes)
        rest = rest >> 8 ^ kTable[(rest ^ static_cast<std::uint32_t>(*at++)) & 255];
    return rest;
}

// a, b and c: the rests of three equal parts, all going on side by side.
void thirds_by_table(std::uint32_t (&rest)[3], const std::byte* at, std::size_t part)
{
    for (unsigned i = 0; i < 3; ++i)
        rest[i] = raw_by_table(rest[i], at + i * part, part);
}

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] std::uint32_t raw_by_hardware(std::uint32_t rest, const std::byte* at, std::size_t bytes)
{
    std::uint64_t wide = rest;
    for (; bytes >= 8; bytes -= 8, at += 8)
        wide = _mm_crc32_u64(wide, word_at(at));
    rest = static_cast<std::uint32_t>(wide);
    for (; bytes != 0; --bytes)
        rest = _mm_crc32_u8(rest, static_cast<std::uint8_t>(*at++));
    return rest;
}
[[gnu::target("sse4.2")]] void thirds_by_hardware(std::uint32_t (&rest)[3], const std::byte* at, std::size_t part)
{
    std::uint64_t a = rest[0], b = rest[1], c = rest[2];
    for (std::size_t i = 0; i < part; i += 8) {
        a = _mm_crc32_u64(a, word_at(at + i));
        b = _mm_crc32_u64(b, word_at(at + part + i));
        c = _mm_crc32_u64(c, word_at(at + 2 * part + i));
    }
    rest[0] = static_cast<std::uint32_t>(a);
    rest[1] = static_cast<std::uint32_t>(b);
    rest[2] = static_cast<std::uint32_t>(c);
}
bool has_hardware()
{
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
[[gnu::target("+crc")]] std::uint32_t raw_by_hardware(std::uint32_t rest, const std::byte* at, std::size_t bytes)
{
    for (; bytes >= 8; bytes -= 8, at += 8)
        rest = __builtin_aarch64_crc32cx(rest, word_at(at));
    for (; bytes != 0; --bytes)
        rest = __builtin_aarch64_crc32cb(rest, static_cast<std::uint8_t>(*at++));
    return rest;
}
[[gnu::target("+crc")]] void thirds_by_hardware(std::uint32_t (&rest)[3], const std::byte* at, std::size_t part)
{
    for (std::size_t i = 0; i < part; i += 8)
        for (unsigned third = 0; third < 3; ++third)
            rest[third] = __builtin_aarch64_crc32cx(rest[third], word_at(at + third * part + i));
}
bool has_hardware()
{
    constexpr unsigned long kCrc32 = 1 << 7; // HWCAP_CRC32
    return (::getauxval(AT_HWCAP) & kCrc32) != 0;
}
#else
constexpr auto raw_by_hardware = raw_by_table;
constexpr auto thirds_by_hardware = thirds_by_table;
bool has_hardware()
{
    return false;
}
#endif

bool hardware()
{
    static const bool has = has_hardware();
    return has;
}

std::uint32_t raw(std::uint32_t rest, const std::byte* at, std::size_t bytes)
{
    return hardware() ? raw_by_hardware(rest, at, bytes) : raw_by_table(rest, at, bytes);
}

} // namespace

std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t bytes)
{
    return ~raw(~crc, static_cast<const std::byte*>(data), bytes);
}

std::uint32_t crc32c_by_table(std::uint32_t crc, const void* data, std::size_t bytes)
{
    return ~raw_by_table(~crc, static_cast<const std::byte*>(data), bytes);
}

std::uint32_t checksum(std::uint32_t seed, const std::byte* data, std::size_t bytes)
{
    constexpr std::size_t kWorthIt = 192;
    if (bytes < kWorthIt)
        return raw(~seed, data, bytes);
    const std::size_t part = bytes / 24 * 8;
    std::uint32_t rest[3] = {~seed, 0x5bd1e995, 0x27d4eb2f};
    if (hardware())
        thirds_by_hardware(rest, data, part);
    else
        thirds_by_table(rest, data, part);
    const std::uint32_t mixed = rest[0] ^ std::rotl(rest[1], 11) ^ std::rotl(rest[2], 22);
    return raw(mixed, data + 3 * part, bytes - 3 * part);
}

} // namespace storm::wire
