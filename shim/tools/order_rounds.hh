// SPDX-License-Identifier: MIT
// The rounds of storm-ordercheck: a producer writes records that carry their own checksum,
// a consumer checks each at the moment that it sees it. What it finds wrong was torn.
#pragma once

#include "ring.hh"

#include <string>

namespace storm::order {

// How sizes and bytes follow from the number of a round.
struct Plan {
    std::uint64_t payload_max = 4096;

    std::uint64_t mix(std::uint64_t n) const
    {
        n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
        n = (n ^ n >> 27) * 0x94d049bb133111ebu;
        return n ^ n >> 31;
    }
    // Mostly small ones, as particles are; all multiples of eight and not less than two words.
    std::uint64_t bytes(std::uint64_t round) const
    {
        const std::uint64_t n = mix(round + 1);
        const std::uint64_t most = n % 64 == 0 ? payload_max : n % 8 == 0 ? payload_max / 8 : 64;
        return 16 + (n >> 8) % (most < 32 ? 16 : most - 15) / 8 * 8;
    }
};

// Over words: the sum must tell a word that stands in another's place, too.
inline std::uint64_t sum_of(const std::byte* words, std::uint64_t bytes, std::uint64_t round)
{
    std::uint64_t sum = round * 0x9e3779b97f4a7c15u, word;
    for (std::uint64_t at = 8; at < bytes; at += 8) {
        std::memcpy(&word, words + at, 8);
        sum = (sum << 7 | sum >> 57) * 0x100000001b3u ^ word;
    }
    return sum;
}

class Producer {
public:
    Producer(Backend& backend, int peer, const Lane& lane, const Plan& plan)
        : backend_(backend), peer_(peer), plan_(plan), ring_(lane)
    {
    }
    std::uint64_t rounds() const { return rounds_; }

    // One record; false while the ring is full.
    bool step()
    {
        const std::uint64_t bytes = plan_.bytes(rounds_);
        std::byte* at = ring_.reserve(bytes);
        if (at == nullptr)
            return false;
        std::uint64_t word = plan_.mix(rounds_);
        for (std::uint64_t i = 8; i < bytes; i += 8) {
            word = word * 6364136223846793005u + 1442695040888963407u;
            std::memcpy(at + i, &word, 8);
        }
        word = sum_of(at, bytes, rounds_);
        std::memcpy(at, &word, 8);
        ring_.commit(Kind::eager, 0, bytes, static_cast<std::int32_t>(rounds_ & 0x7fffffff), 0);
        if (!backend_.direct())
            backend_.publish(peer_, ring_.lane(), announced_, ring_.tail());
        announced_ = ring_.tail();
        ++rounds_;
        return true;
    }

private:
    Backend& backend_;
    const int peer_;
    const Plan plan_;
    RingWriter ring_;
    std::uint64_t announced_ = 0, rounds_ = 0;
};

class Consumer {
public:
    Consumer(const Lane& lane, const Plan& plan) : plan_(plan), ring_(lane) {}

    std::uint64_t rounds() const { return rounds_; }
    std::uint64_t bytes() const { return bytes_; }
    std::uint64_t torn() const { return torn_; }
    const std::string& first() const { return first_; } // what was wrong at first
    bool lost() const { return lost_; } // a header was wrong: nothing behind it can be read

    // All that is there; false when nothing was.
    bool step()
    {
        RecordHeader header;
        bool any = false;
        for (const std::byte* at = lost_ ? nullptr : ring_.peek(header); at != nullptr; at = ring_.peek(header)) {
            any = true;
            const std::uint64_t bytes = plan_.bytes(rounds_);
            if (!ring_.sound(header) || header.kind != Kind::eager || header.bytes != bytes) {
                lost_ = true;
                wrong("its header");
                return true;
            }
            std::uint64_t sum;
            std::memcpy(&sum, at, 8);
            if (sum != sum_of(at, bytes, rounds_) ||
                header.tag != static_cast<std::int32_t>(rounds_ & 0x7fffffff))
                wrong("its payload");
            ring_.pop(header);
            bytes_ += bytes;
            ++rounds_;
        }
        return any;
    }

private:
    void wrong(const char* what)
    {
        if (torn_++ == 0)
            first_ = "round " + std::to_string(rounds_) + ": " + what;
    }

    const Plan plan_;
    RingReader ring_;
    std::uint64_t rounds_ = 0, bytes_ = 0, torn_ = 0;
    bool lost_ = false;
    std::string first_;
};

} // namespace storm::order
