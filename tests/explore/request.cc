// SPDX-License-Identifier: MIT
// Programs over the two words of shim/request.hh: a send that two threads complete, one
// when its payload has left and one when its ack has come, while a third waits for it or
// gives its handle back (Rank::finish_part, Rank::finish, Rank::free_request).
#include "programs.hh"

#include "request.hh"

#include <memory>

namespace storm::explore {
namespace {

using Words = Completion<Checked>;

class Send {
public:
    void begin()
    {
        ended_ = 0;
        put(what_, 1);
    }

    // Each of the two: what it leaves behind is for whoever ends the request.
    void finish_part(int which)
    {
        put(left_behind_[which], 5);
        if (Words::part_done(awaits_, which == 0 ? Request::kCopy : Request::kAck) && Words::complete(phase_))
            end_it();
    }
    void wait()
    {
        Explorer::await([this] { return Words::look(phase_) == Words::State::complete; });
        end_it();
    }
    void give_back()
    {
        Explorer::expect(get(what_) == 1, "a request that is none");
        if (!Words::abandon(phase_))
            end_it();
    }

    void end() { Explorer::expect(ended_ == 1 && get(what_) == 0, "a request that does not end once"); }

private:
    static void put(std::uint64_t& at, std::uint64_t value)
    {
        Checked::write(reinterpret_cast<std::byte*>(&at), &value, sizeof value, Site::payload);
    }
    static std::uint64_t get(const std::uint64_t& at)
    {
        std::uint64_t value = 0;
        Checked::read(&value, reinterpret_cast<const std::byte*>(&at), sizeof value, Site::copy);
        return value;
    }
    void end_it()
    {
        Explorer::expect(get(left_behind_[0]) == 5 && get(left_behind_[1]) == 5, "an end before all was done");
        put(what_, 0);
        ++ended_;
    }

    alignas(8) std::uint8_t awaits_ = Request::kCopy | Request::kAck;
    alignas(8) Words::State phase_ = Words::State::active;
    std::uint64_t what_ = 0;
    std::uint64_t left_behind_[2] = {};
    int ended_ = 0;
};

} // namespace

std::vector<Named> request_programs()
{
    const auto send = std::make_shared<Send>();
    const std::function<void()> begin = [send] { send->begin(); }, end = [send] { send->end(); },
                                copied = [send] { send->finish_part(0); }, acked = [send] { send->finish_part(1); };
    const std::vector<Weakening> both = {{Site::awaits, How::relaxed}, {Site::awaits, How::split},
                                         {Site::awaits, How::absent},  {Site::complete, How::relaxed}};
    std::vector<Weakening> waited = both, given_back = both;
    for (const Weakening w : {Weakening{Site::look, How::relaxed}, {Site::complete, How::absent}})
        waited.push_back(w);
    for (const Weakening w : {Weakening{Site::abandon, How::relaxed}, {Site::abandon, How::split},
                              {Site::complete, How::split}, {Site::abandon, How::absent}})
        given_back.push_back(w);
    return {
        {"a send that is waited for", {begin, {copied, acked, [send] { send->wait(); }}, end}, waited},
        {"a send whose handle is given back", {begin, {copied, acked, [send] { send->give_back(); }}, end}, given_back},
    };
}

} // namespace storm::explore
