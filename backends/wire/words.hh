// SPDX-License-Identifier: MIT
// What the two ends of a lane tell each other by words. All of one job has one layout.
#pragma once

#include "base/backend.hh"
#include "promises.hh"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

namespace storm::wire {

enum class Topic : std::uint8_t {
    transport = 1, // the transport's own, behind one byte
    ask,           // sender: a lane, please
    grant,         // receiver: here it is
    refuse,        // receiver: none, and why
    done,          // sender: the lane is written no more, and all of it has left
};

struct Ask {
    Topic topic = Topic::ask;
    Mode mode = Mode::stamped;
    bool verify = false;
    bool lines = false; // the sender trusts whole lines
    std::uint64_t lane = 0; // the sender's number
    std::uint64_t bytes = 0;
    std::uint64_t block_address = 0, block_key = 0;
    char address[160] = ""; // of the sender's transport
};

struct Grant {
    Topic topic = Topic::grant;
    std::uint32_t slot = 0;
    std::uint64_t lane = 0;
    std::uint64_t ref = 0; // the receiver's number
    std::uint64_t ring_address = 0, key = 0;
    std::uint64_t landing_address = 0;
    std::uint32_t cells = 0, cell_bytes = 0;
};

struct Refuse {
    Topic topic = Topic::refuse;
    std::uint64_t lane = 0;
    char why[200] = "";
};

struct Done {
    Topic topic = Topic::done;
    std::uint64_t ref = 0;
    std::uint64_t units = 0; // all that was sent in it
};

template <class T>
Word word_of(int peer, const T& message)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof Word::data);
    Word word;
    word.peer = peer;
    word.bytes = sizeof message;
    std::memcpy(word.data.data(), &message, sizeof message);
    return word;
}

// False when the word is too short to be one.
template <class T>
bool read_word(const Word& word, T& message)
{
    if (word.bytes < sizeof message)
        return false;
    std::memcpy(&message, word.data.data(), sizeof message);
    return true;
}

template <std::size_t n>
void set_text(char (&to)[n], std::string_view text)
{
    const std::size_t length = std::min(text.size(), n - 1);
    text.copy(to, length);
    to[length] = '\0';
}

} // namespace storm::wire
