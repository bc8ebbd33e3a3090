// SPDX-License-Identifier: MIT
// How words are accessed that two processes or threads share: rings, the directory of
// claims, and how a request is completed.
// What is shipped uses `Hardware`, which is the plain C++ access and costs nothing. The
// explorer in tests/explore/ puts its own in that place: it knows each access by its
// Site, tries all that C++ lets the other one see, and can weaken one of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace storm {

enum class Site : std::uint8_t {
    // ring.hh: the sender's
    clear, header, commit, clear_first, skip, take_head,
    // and the receiver's
    peek, peek_rest, free_head,
    // slab.hh: the sender's
    budget, range, directory_hint, slot, entry, claim,
    // and the receiver's
    accept, accept_entry, give_back,
    // request.hh: who completes it, and who waits for it or gives it back
    awaits, complete, look, abandon,
    // callers': payloads, and looks that only hint
    payload, copy, hint,
    last_site = hint,
};

struct Hardware {
    template <class Word>
    static Word load(const std::atomic<Word>& word, std::memory_order order, Site)
    {
        return word.load(order);
    }
    template <class Word>
    static Word load(const Word& word, std::memory_order order, Site)
    {
        return std::atomic_ref(const_cast<Word&>(word)).load(order);
    }
    template <class Word>
    static void store(std::atomic<Word>& word, std::type_identity_t<Word> value, std::memory_order order, Site)
    {
        word.store(value, order);
    }
    template <class Word>
    static void store(Word& word, std::type_identity_t<Word> value, std::memory_order order, Site)
    {
        std::atomic_ref(word).store(value, order);
    }
    // Returns what was there before.
    template <class Word>
    static Word add(std::atomic<Word>& word, std::type_identity_t<Word> by, std::memory_order order, Site)
    {
        return word.fetch_add(by, order);
    }
    // The same for these: what stays of the word, what comes in its place, and what comes
    // there if it is `expected`.
    template <class Word>
    static Word keep_bits(Word& word, std::type_identity_t<Word> bits, std::memory_order order, Site)
    {
        return std::atomic_ref(word).fetch_and(bits, order);
    }
    template <class Word>
    static Word exchange(Word& word, std::type_identity_t<Word> value, std::memory_order order, Site)
    {
        return std::atomic_ref(word).exchange(value, order);
    }
    template <class Word>
    static Word exchange_if(Word& word, std::type_identity_t<Word> expected, std::type_identity_t<Word> value,
                            std::memory_order order, Site)
    {
        std::atomic_ref(word).compare_exchange_strong(expected, value, order);
        return expected;
    }
    // Bytes that one side alone may touch at this time.
    static void write(std::byte* to, const void* from, std::size_t bytes, Site) { std::memcpy(to, from, bytes); }
    static void read(void* to, const std::byte* from, std::size_t bytes, Site) { std::memcpy(to, from, bytes); }
};

} // namespace storm
