// SPDX-License-Identifier: MIT
// The messages of a rank's waves. There is at most one under way towards a rank and
// direction, and none of one direction while one of the other may be: the sums of a child
// come before our own have left, the parent's answer after that. So one tag serves both.
#include "termination.hh"

namespace storm {
namespace {

constexpr int kEndTag = 0; // on the private communicator

} // namespace

Termination::Termination(const RealMpi& real, MPI_Comm comm, int rank, int ranks)
    : real_(real), comm_(comm), receive_(real.request_null)
{
    storm_wave_init(&wave_, rank, ranks);
    storm_wave_begin(&wave_);
    sends_.reserve(static_cast<std::size_t>(wave_.children) + 1);
}

bool Termination::step(bool idle, storm_sums own)
{
    if (!left())
        return false; // out_ is still read
    if (wave_.running != 0) {
        if (came())
            wave_.asked != 0 ? act(storm_wave_down(&wave_, in_.sent != 0)) : storm_wave_up(&wave_, in_);
        else if (idle)
            act(storm_wave_idle(&wave_, own));
    }
    return error_ != MPI_SUCCESS || (wave_.running == 0 && left());
}

// The next message of this wave, in in_. What nobody owes us is not waited for.
bool Termination::came()
{
    if (wave_.waiting == 0 && wave_.asked == 0)
        return false;
    int flag = 0;
    if (receive_ == real_.request_null)
        error_ = real_.Irecv(&in_, sizeof in_, real_.byte,
                             wave_.asked != 0 ? storm_wave_parent(&wave_) : MPI_ANY_SOURCE, kEndTag, comm_,
                             &receive_);
    if (error_ == MPI_SUCCESS)
        error_ = real_.Test(&receive_, &flag, MPI_STATUS_IGNORE);
    return error_ == MPI_SUCCESS && flag != 0;
}

bool Termination::left()
{
    int flag = 1;
    while (!sends_.empty() && flag != 0 && error_ == MPI_SUCCESS) {
        error_ = real_.Test(&sends_.back(), &flag, MPI_STATUS_IGNORE);
        if (flag != 0)
            sends_.pop_back();
    }
    return sends_.empty();
}

void Termination::act(storm_wave_act what)
{
    if (what == STORM_WAVE_UP)
        return post(wave_.sums, storm_wave_parent(&wave_));
    if (what == STORM_WAVE_NOTHING)
        return;
    ++waves_;
    for (int n = wave_.children; n-- > 0;) // the largest subtree first
        post({wave_.over, 0}, storm_wave_child(&wave_, n));
}

void Termination::post(storm_sums message, int to)
{
    out_ = message;
    sends_.emplace_back(real_.request_null);
    const int rc = real_.Isend(&out_, sizeof out_, real_.byte, to, kEndTag, comm_, &sends_.back());
    error_ = error_ == MPI_SUCCESS ? rc : error_;
    ++messages_;
}

} // namespace storm
