// SPDX-License-Identifier: MIT
// Plays a case: each rank takes its steps in order, then receives what is left and ends.
#include "case.hh"
#include "oracle.hh"

#include <algorithm>
#include <cstring>
#include <list>
#include <map>

namespace storm {

// A look inside a Rank.
struct RankTest {
    static bool carried_to(Rank& rank, int peer)
    {
        return rank.channel(peer).path != Channel::Path::ring;
    }
    static std::string unrest(const Rank& rank)
    {
        return rank.buffered_ != 0           ? "copies of sends are left"
               : !rank.waiting_.empty()      ? "sends wait for room"
               : rank.transfers_ != 0        ? "the real MPI has operations under way"
               : rank.backlog_ != 0          ? "messages are left"
                                             : "";
    }
};

namespace sim {
namespace {

constexpr int kComms = 3; // MPI_COMM_WORLD, its duplicate, its ranks in the opposite order
constexpr std::uint64_t kRoom = 24000;
constexpr std::size_t kHole = 2; // a typed element: 3 bytes, a hole, 4 bytes
constexpr std::uint64_t kTypedData = 7, kTypedExtent = kTypedData + kHole;

using Bytes = std::vector<std::byte>;

struct Sending {
    int message = -1;
    Bytes data;
    MPI_Request request = nullptr;
};
struct Receiving {
    int receive = -1;
    bool typed = false, persistent = false;
    Bytes buffer;
    MPI_Request request = nullptr;
};

class Player {
public:
    Player(const Case& c, const std::vector<std::size_t>* keep) : case_(c), world_(c.world)
    {
        for (std::size_t i = 0; keep == nullptr ? i < c.steps.size() : i < keep->size(); ++i)
            steps_.push_back(&c.steps[keep == nullptr ? i : (*keep)[i]]);
        std::vector<int> same, reversed;
        for (int i = 0; i < world_.size(); ++i) {
            same.push_back(i);
            reversed.insert(reversed.begin(), i);
        }
        handles_[0] = world_.real().comm_world;
        handles_[1] = world_.native.make_comm(same);
        handles_[2] = world_.native.make_comm(reversed);
        typed_ = world_.native.make_type({{0, 3}, {3 + static_cast<std::ptrdiff_t>(kHole), 4}}, kTypedExtent);
        const auto fails = [this](const char* call) { return fault(call); };
        world_.net.faults.fails = fails;
        world_.native.fails = fails;
        members_.resize(static_cast<std::size_t>(world_.size()));
    }

    Outcome play()
    {
        Outcome out;
        std::string stopped = world_.run([this](int rank) { rank_program(rank); });
        if (stopped.empty() && !world_.native.broken.empty())
            stopped = world_.native.broken.front();
        out.ended = world_.aborted();
        const bool hung = stopped.find("nothing moves") != std::string::npos;
        if (hung && died_) { // those who wait for the dead wait for ever
            out.ended = stopped;
            stopped.clear();
        }
        if (out.ended.empty() && died_)
            out.ended = "a rank died";
        if (!out.ended.empty() && !died_ && case_.faults == 0)
            oracle_.problem(out.ended);
        oracle_.judge(out.ended.empty() && stopped.empty());
        // what the oracle found came first, but for a hang: then messages are under way
        out.violation = stopped.empty() || !oracle_.found().empty() ? oracle_.found() : stopped;
        out.messages = static_cast<std::uint64_t>(messages_);
        out.events = world_.time.fired();
        out.fault_points = points_;
        out.fault_name = failed_call_;
        out.digest = digest_ ^ world_.time.now();
        return out;
    }

private:
    struct Member {
        std::list<Sending> sending;
        std::list<Receiving> receiving;
        std::list<Receiving> kept; // persistent receives that are not started
        Comm* comms[kComms] = {};
        std::size_t collectives = 0;
        bool steps_over = false;
    };

    bool fault(const char* call)
    {
        if (++points_ != case_.faults)
            return false;
        failed_call_ = call;
        return true;
    }
    Member& me() { return members_[static_cast<std::size_t>(world_.current())]; }
    Rank& rank() { return world_.rank(world_.current()); }
    int rank_in(int comm, int world_rank) const
    {
        return comm == 2 && world_rank >= 0 ? world_.size() - 1 - world_rank : world_rank;
    }
    // Calls that return an error end the job, as MPI_ERRORS_ARE_FATAL does.
    void check(int rc, const char* call)
    {
        if (rc != MPI_SUCCESS)
            world_.abort(std::string(call) + " returned error class " + std::to_string(rc));
    }
    void note(std::uint64_t what) { digest_ = (digest_ ^ what ^ world_.time.now()) * 1099511628211u; }

    void rank_program(int r)
    {
        Member& m = me();
        m.comms[0] = rank().find(handles_[0]);
        for (int i = 1; i < kComms; ++i) // each rank at its own time
            m.comms[i] = rank().adopt(handles_[i], static_cast<std::uint64_t>(i) + 1);
        for (const Step* s : steps_) {
            if (s->rank != r && s->kind != Step::Kind::collective)
                continue;
            world_.moved();
            take(*s);
            world_.spend(200);
            if (world_.random.one_in(4))
                world_.sleep(world_.random.below(3 * kMicrosecond));
        }
        m.steps_over = true;
        receive_the_rest();
        world_.doing("the end");
        if (died_)
            return;
        rank().quiesce();
        const std::string unrest = RankTest::unrest(rank());
        if (!unrest.empty())
            oracle_.problem("rank " + std::to_string(r) + " is not at rest: " + unrest);
    }

    void take(const Step& s)
    {
        switch (s.kind) {
        case Step::Kind::isend:
        case Step::Kind::send:
        case Step::Kind::persist: return send(s);
        case Step::Kind::irecv: return receive(s);
        case Step::Kind::restart: return restart(s);
        case Step::Kind::probe: return probe(s);
        case Step::Kind::matched: matched(s.comm, s.peer, s.tag); return;
        case Step::Kind::complete: return complete(s.which);
        case Step::Kind::cancel: return cancel(s.which);
        case Step::Kind::compute: return world_.sleep(s.time);
        case Step::Kind::collective: return collective();
        case Step::Kind::drop_link:
            return world_.fabric.drop_link(s.rank, s.peer, world_.time.now() + s.time);
        case Step::Kind::die:
            died_ = true;
            world_.kill(s.rank);
            throw Killed();
        }
    }

    // ---- sending

    void send(const Step& s)
    {
        const int at = world_.current();
        const bool blocking = s.kind == Step::Kind::send;
        std::uint64_t bytes = s.bytes;
        if (blocking) // what the real MPI takes before there is a receive
            bytes %= case_.world.native.eager_max / 2;
        if (s.typed)
            do
                bytes = (bytes / kTypedData + 1) * kTypedData;
            while (oracle_.free_length(at, s.peer, s.comm, bytes) != bytes);
        else
            bytes = oracle_.free_length(at, s.peer, s.comm, bytes);
        const storm::Mode mode = blocking ? storm::Mode::standard : s.mode;
        Sending& out = me().sending.emplace_back();
        out.message = oracle_.sent(at, s.peer, s.comm, s.tag, bytes, mode == storm::Mode::synchronous);
        ++messages_;
        const Sent sent = oracle_.message(out.message);
        const std::uint64_t count = s.typed ? bytes / kTypedData : bytes;
        out.data.resize(s.typed ? count * kTypedExtent : count);
        for (std::uint64_t i = 0; i < bytes; ++i)
            out.data[s.typed ? place_of(i) : i] = Oracle::content(sent, i);
        TypeInfo& type = *rank().type_of(s.typed ? typed_ : world_.real().byte);
        Comm& comm = *me().comms[s.comm];
        const int dest = rank_in(s.comm, s.peer), n = static_cast<int>(count);
        world_.doing("a send");
        if (blocking) {
            check(rank().send(out.data.data(), n, type, dest, s.tag, comm, mode), "MPI_Send");
            sent_is_over(out);
            me().sending.pop_back();
        } else if (s.kind == Step::Kind::persist) {
            out.request = rank().send_init(out.data.data(), n, type, dest, s.tag, comm, mode);
            rank().start(*reinterpret_cast<Request*>(out.request));
            if (s.which % 2 != 0) { // given back while it is active: nobody will tell of its end
                rank().free_request(&out.request);
                oracle_.send_ended_unseen(out.message);
                freed_.splice(freed_.end(), me().sending, std::prev(me().sending.end()));
            }
        } else {
            out.request = rank().isend(out.data.data(), n, type, dest, s.tag, comm, mode);
        }
    }
    static std::uint64_t place_of(std::uint64_t i)
    {
        const std::uint64_t in = i % kTypedData;
        return i / kTypedData * kTypedExtent + in + (in >= 3 ? kHole : 0);
    }
    // Its buffer is the program's again.
    void sent_is_over(Sending& s)
    {
        oracle_.send_ended(s.message);
        std::fill(s.data.begin(), s.data.end(), std::byte{0xdd});
        note(static_cast<std::uint64_t>(s.message));
    }

    // ---- receiving

    Receiving& open(int comm, int source, int tag, bool typed)
    {
        Receiving& in = me().receiving.emplace_back();
        in.typed = typed;
        in.receive = oracle_.posted(world_.current(), comm, source, tag);
        in.buffer.assign(typed ? kRoom / kTypedData * kTypedExtent : kRoom, std::byte{0xee});
        return in;
    }
    TypeInfo& type(bool typed) { return *rank().type_of(typed ? typed_ : world_.real().byte); }
    static int count(bool typed) { return static_cast<int>(typed ? kRoom / kTypedData : kRoom); }

    void receive(const Step& s)
    {
        Receiving& in = open(s.comm, s.peer, s.tag, s.typed);
        world_.doing("a receive");
        in.request = rank().irecv(in.buffer.data(), count(s.typed), type(s.typed), rank_in(s.comm, s.peer), s.tag,
                                  *me().comms[s.comm]);
    }
    // A persistent receive: made, or started again when one is there.
    void restart(const Step& s)
    {
        auto& kept = me().kept;
        if (kept.empty()) {
            Receiving& in = kept.emplace_back();
            in.typed = s.typed;
            in.persistent = true;
            in.buffer.resize(s.typed ? kRoom / kTypedData * kTypedExtent : kRoom);
            in.request = rank().recv_init(in.buffer.data(), count(s.typed), type(s.typed), rank_in(s.comm, s.peer),
                                          s.tag, *me().comms[s.comm]);
            asked_[in.request] = {s.comm, s.peer, s.tag};
        }
        me().receiving.splice(me().receiving.end(), kept, kept.begin());
        Receiving& in = me().receiving.back();
        const auto& [comm, source, tag] = asked_[in.request];
        std::fill(in.buffer.begin(), in.buffer.end(), std::byte{0xee});
        in.receive = oracle_.posted(world_.current(), comm, source, tag);
        rank().start(*reinterpret_cast<Request*>(in.request));
    }

    void judge(Receiving& in, const MPI_Status& status, int error)
    {
        world_.moved();
        if (status._cancelled != 0)
            return oracle_.cancelled(in.receive);
        Bytes whole(kRoom, std::byte{0xee});
        if (in.typed)
            for (std::uint64_t i = 0; i < kRoom / kTypedData * kTypedData; ++i)
                std::swap(whole[i], in.buffer[place_of(i)]);
        else
            whole = in.buffer;
        const auto written = [](std::byte b) { return b != std::byte{0xee}; };
        if (in.typed && std::any_of(in.buffer.begin(), in.buffer.end(), written))
            oracle_.problem("a hole of a datatype was written");
        const int comm = oracle_.comm_of(in.receive);
        const int source = status.MPI_SOURCE < 0 ? status.MPI_SOURCE : rank_in(comm, status.MPI_SOURCE);
        oracle_.received(in.receive, source, status.MPI_TAG, status._ucount, error, whole.data(), kRoom);
        note(status._ucount);
    }
    // A receive has ended; a persistent one may start again.
    void end(std::list<Receiving>::iterator in, const MPI_Status& status, int error)
    {
        judge(*in, status, error);
        if (in->persistent)
            me().kept.splice(me().kept.end(), me().receiving, in);
        else
            me().receiving.erase(in);
    }

    bool probed(int comm, int source, int tag, const MPI_Status& status, int* message)
    {
        *message = oracle_.probed(world_.current(), comm, source, tag, rank_in(comm, status.MPI_SOURCE),
                                  status.MPI_TAG, status._ucount);
        return *message >= 0;
    }
    void probe(const Step& s)
    {
        MPI_Status status;
        int message = -1;
        world_.doing("a probe");
        if (rank().iprobe(rank_in(s.comm, s.peer), s.tag, *me().comms[s.comm], &status))
            probed(s.comm, s.peer, s.tag, status, &message);
    }
    bool matched(int comm, int source, int tag)
    {
        MPI_Status status;
        int message = -1;
        world_.doing("a matched probe");
        const MPI_Message handle = rank().improbe(rank_in(comm, source), tag, *me().comms[comm], &status);
        if (handle == nullptr)
            return false;
        if (!probed(comm, source, tag, status, &message))
            throw Violation(oracle_.found());
        Receiving& in = open(comm, source, tag, false);
        oracle_.taken(in.receive, message);
        in.request = rank().imrecv(in.buffer.data(), count(false), type(false), handle);
        return true;
    }

    // ---- completing

    void complete(int which)
    {
        std::vector<std::list<Receiving>::iterator> asked;
        std::vector<MPI_Request> requests;
        const bool sure = which % 8 >= 4 && something_comes();
        for (auto in = me().receiving.begin(); in != me().receiving.end(); ++in)
            if (sure || world_.random.below(3) != 0) {
                asked.push_back(in);
                requests.push_back(in->request);
            }
        if (!asked.empty())
            complete(sure ? which % 8 : which % 4, asked, requests);
        if (which % 16 == 15)
            receive_blocking();
        complete_sends();
    }
    // A receive that is posted will get a message that is sent already.
    bool something_comes()
    {
        for (const Receiving& in : me().receiving)
            if (oracle_.will_end(in.receive))
                return true;
        return false;
    }
    void complete(int how, std::vector<std::list<Receiving>::iterator>& asked, std::vector<MPI_Request>& requests)
    {
        const int n = static_cast<int>(requests.size());
        std::vector<MPI_Status> statuses(requests.size());
        std::vector<int> indices(requests.size());
        int flag = 0, index = MPI_UNDEFINED, done = 0, rc = MPI_SUCCESS;
        world_.doing("a completion");
        switch (how) {
        case 0:
            rc = rank().test(&requests[0], &flag, &statuses[0]);
            index = 0;
            break;
        case 1: rc = rank().testany(n, requests.data(), &index, &flag, &statuses[0]); break;
        case 2:
            rc = rank().testall(n, requests.data(), &flag, statuses.data());
            for (int i = 0; flag != 0 && i < n; ++i)
                indices[static_cast<std::size_t>(done++)] = i;
            flag = 0;
            break;
        case 3: rc = rank().testsome(n, requests.data(), &done, indices.data(), statuses.data()); break;
        case 4:
        case 5:
            rc = rank().waitany(n, requests.data(), &index, &statuses[0]);
            flag = 1;
            break;
        default: rc = rank().waitsome(n, requests.data(), &done, indices.data(), statuses.data()); break;
        }
        check(rc, "a completion");
        if (flag != 0)
            indices[static_cast<std::size_t>(done++)] = index;
        for (std::size_t i = 0; i < static_cast<std::size_t>(done); ++i) {
            const auto at = asked[static_cast<std::size_t>(indices[i])];
            at->request = requests[static_cast<std::size_t>(indices[i])];
            if (at->persistent != (at->request != world_.real().request_null))
                oracle_.problem("a completed request has the wrong handle");
            end(at, statuses[i], MPI_SUCCESS);
        }
    }
    void complete_sends()
    {
        for (auto s = me().sending.begin(); s != me().sending.end();) {
            int flag = 0;
            world_.doing("a test of a send");
            check(rank().test(&s->request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
            if (flag == 0) {
                ++s;
                continue;
            }
            if (s->request != world_.real().request_null) // persistent
                rank().free_request(&s->request);
            sent_is_over(*s);
            s = me().sending.erase(s);
        }
    }
    // Of a message that is on its way, and for which nobody asks yet.
    void receive_blocking()
    {
        for (int comm = 0; comm < kComms; ++comm) {
            const auto waiting = oracle_.waiting_for(world_.current(), comm);
            if (waiting.empty())
                continue;
            const Sent s = oracle_.message(waiting.front());
            MPI_Status status;
            int message = -1;
            world_.doing("a blocking probe");
            rank().probe(rank_in(comm, s.from), s.tag, *me().comms[comm], &status);
            probed(comm, s.from, s.tag, status, &message);
            open(comm, s.from, s.tag, false);
            const auto in = std::prev(me().receiving.end());
            world_.doing("a blocking receive");
            check(rank().recv(in->buffer.data(), count(false), type(false), rank_in(comm, s.from), s.tag,
                              *me().comms[comm], &status),
                  "MPI_Recv");
            return end(in, status, MPI_SUCCESS);
        }
    }
    void cancel(int which)
    {
        if (me().receiving.empty())
            return;
        const auto in = std::next(me().receiving.begin(), which % static_cast<int>(me().receiving.size()));
        rank().cancel(*reinterpret_cast<Request*>(in->request));
        end_cancelled(in);
    }
    // Cancelled, or taken by a message that may still be on its way.
    void end_cancelled(std::list<Receiving>::iterator in)
    {
        MPI_Status status;
        world_.doing("a wait for a cancelled receive");
        check(rank().wait(&in->request, &status), "MPI_Wait");
        end(in, status, MPI_SUCCESS);
    }

    // ---- together

    void collective()
    {
        const std::size_t number = me().collectives++;
        if (entered_.size() <= number)
            entered_.resize(number + 1, std::vector<std::uint64_t>(static_cast<std::size_t>(world_.size()), 0));
        world_.doing("a collective");
        rank().place_sends(true);
        entered_[number][static_cast<std::size_t>(world_.current())] = oracle_.calls();
        MPI_Request barrier;
        check(world_.real().Ibarrier(world_.real().comm_world, &barrier), "MPI_Ibarrier");
        check(world_.real().Wait(&barrier, MPI_STATUS_IGNORE), "MPI_Wait");
        rank().place_sends(false);
        for (int comm = 0; comm < kComms; ++comm)
            for (const int i : oracle_.waiting_for(world_.current(), comm)) {
                const Sent s = oracle_.message(i);
                if (s.number > entered_[number][static_cast<std::size_t>(s.from)] || by_rendezvous(s))
                    continue;
                MPI_Status status;
                int message = -1;
                if (!rank().iprobe(rank_in(comm, s.from), s.tag, *me().comms[comm], &status))
                    oracle_.problem("a message that was sent before a collective is not found behind it");
                else
                    probed(comm, s.from, s.tag, status, &message);
            }
    }
    // Its record is carried by the real MPI, and is more than that takes at once.
    bool by_rendezvous(const Sent& s)
    {
        return case_.world.native.eager_max < 4032 && s.from != s.to &&
               RankTest::carried_to(world_.rank(s.from), s.to);
    }

    void receive_the_rest()
    {
        const int at = world_.current();
        for (;;) {
            const auto before = oracle_.calls();
            complete_sends();
            for (auto in = me().receiving.begin(); in != me().receiving.end();) {
                const auto next = std::next(in);
                int flag = 0;
                MPI_Status status;
                world_.doing("a test of a receive");
                check(rank().test(&in->request, &flag, &status), "MPI_Test");
                if (flag != 0)
                    end(in, status, MPI_SUCCESS);
                in = next;
            }
            for (int comm = 0; comm < kComms; ++comm)
                matched(comm, MPI_ANY_SOURCE, MPI_ANY_TAG);
            if (me().sending.empty() && all_sent() && oracle_.sent_to(at) == oracle_.arrived_at(at))
                break;
            if (oracle_.calls() != before)
                world_.moved();
            world_.doing("what is left");
            world_.idle(world_.random.below(case_.world.look_most) + 1);
        }
        while (!me().receiving.empty()) {
            rank().cancel(*reinterpret_cast<Request*>(me().receiving.front().request));
            end_cancelled(me().receiving.begin());
        }
        for (Receiving& in : me().kept)
            rank().free_request(&in.request);
        me().kept.clear();
    }
    bool all_sent() const
    {
        return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.steps_over; });
    }

    const Case& case_;
    World world_;
    Oracle oracle_;
    std::vector<const Step*> steps_;
    MPI_Comm handles_[kComms];
    MPI_Datatype typed_ = nullptr;
    std::vector<Member> members_;
    std::list<Sending> freed_;
    std::map<MPI_Request, std::tuple<int, int, int>> asked_;
    std::vector<std::vector<std::uint64_t>> entered_; // calls made when each rank entered a collective
    int points_ = 0, messages_ = 0;
    std::string failed_call_;
    std::uint64_t digest_ = 14695981039346656037u;
    bool died_ = false;
};

} // namespace

Outcome play(const Case& c, const std::vector<std::size_t>* keep)
{
    return Player(c, keep).play();
}

} // namespace sim
} // namespace storm
