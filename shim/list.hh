// SPDX-License-Identifier: MIT
// A doubly linked list through a member of its elements; nothing is allocated.
#pragma once

namespace storm {

template <class T>
struct Link {
    T* next = nullptr;
    T* previous = nullptr;
};

template <class T, Link<T> T::*link>
class List {
public:
    T* front() const { return first_; }
    bool empty() const { return first_ == nullptr; }
    static T* next(const T* element) { return (element->*link).next; }

    void push_back(T* element)
    {
        (element->*link) = {nullptr, last_};
        (last_ != nullptr ? (last_->*link).next : first_) = element;
        last_ = element;
    }

    void remove(T* element)
    {
        Link<T>& at = element->*link;
        (at.previous != nullptr ? (at.previous->*link).next : first_) = at.next;
        (at.next != nullptr ? (at.next->*link).previous : last_) = at.previous;
        at = {};
    }

    T* pop_front()
    {
        T* element = first_;
        if (element != nullptr)
            remove(element);
        return element;
    }

private:
    T* first_ = nullptr;
    T* last_ = nullptr;
};

} // namespace storm
