// SPDX-License-Identifier: MIT
// Locks that only programs with several threads in MPI take. `threaded` is a constant
// of the Rank object; without it each of these is a test of a flag.
//
// Order: Channel::in_lock or out_lock, then Comm::lock, then one of the leaves (the
// rank's tables, pool, types, backend); under the backend's the other leaves may be taken.
// No two of one level else, none twice. A look at everything (Rank::poll) only tries
// in_lock and the native operations' lock: whoever has it does the work; it waits for an
// out_lock to send acks and letters, but not from inside the real MPI. The real MPI's
// sends, receives and tests are called with a channel's lock or that of native operations
// held, never with Comm::lock or a leaf, but by a fabric that is made of them; the call
// back from its progress engine on the same thread then does nothing (Rank::InReal).
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <type_traits>

namespace storm {

using Lock = std::mutex;

class Hold {
public:
    Hold(Lock& lock, bool threaded) : lock_(threaded ? &lock : nullptr)
    {
        if (lock_ != nullptr) [[unlikely]]
            lock_->lock();
    }
    ~Hold() { release(); }
    Hold(const Hold&) = delete;
    void release()
    {
        if (lock_ != nullptr) [[unlikely]]
            lock_->unlock();
        lock_ = nullptr;
    }

private:
    Lock* lock_;
};

class TryHold {
public:
    TryHold(Lock& lock, bool threaded) : lock_(threaded ? &lock : nullptr)
    {
        if (lock_ != nullptr && !lock_->try_lock()) [[unlikely]] {
            lock_ = nullptr;
            busy_ = true;
        }
    }
    ~TryHold()
    {
        if (lock_ != nullptr) [[unlikely]]
            lock_->unlock();
    }
    TryHold(const TryHold&) = delete;
    explicit operator bool() const { return !busy_; }

private:
    Lock* lock_;
    bool busy_ = false;
};

// Adds to a number that threads share; returns the sum.
template <class Number>
Number adjust(Number& number, std::type_identity_t<Number> by, bool threaded)
{
    if (threaded) [[unlikely]] // acq_rel: who takes a count to zero sees what those before did
        return static_cast<Number>(std::atomic_ref(number).fetch_add(by, std::memory_order_acq_rel) + by);
    return number = static_cast<Number>(number + by);
}

// A look at such a number, or at any word that another thread may write.
template <class Word>
Word glance_at(const Word& word)
{
    // relaxed: a hint, or ordered by a lock that is taken afterwards
    return std::atomic_ref(const_cast<Word&>(word)).load(std::memory_order_relaxed);
}
template <class Word>
void set_word(Word& word, std::type_identity_t<Word> value)
{
    // relaxed: pairs with glance_at
    std::atomic_ref(word).store(value, std::memory_order_relaxed);
}

} // namespace storm
