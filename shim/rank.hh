// SPDX-License-Identifier: MIT
// One rank of a routed job: all state of the shim, handed its clock, its backend and
// the real MPI. A real process has one (owned by interpose/); tests and simulations
// make as many as they like.
//
// Thread rules: lock.hh. Only programs with MPI_THREAD_MULTIPLE take locks. The real
// MPI may call back into progress_inside() from any of its calls: that entry waits for
// no lock that is held over such a call, and does nothing while this thread is itself
// inside a real call made from here.
#pragma once

#include "base/backend.hh"
#include "base/clock.hh"
#include "base/device_memory.hh"
#include "base/log.hh"
#include "base/real_mpi.hh"
#include "channel.hh"
#include "communicator.hh"
#include "counters.hh"
#include "datatype.hh"
#include "lock.hh"
#include "pool.hh"
#include "regions.hh"
#include "report.hh"
#include "request.hh"
#include "route_rules.hh"
#include "settings.hh"
#include "termination.hh"

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace storm {

// Which call an error is raised from: the real MPI names it in its message.
enum class Call : std::uint8_t {
    recv, mrecv, sendrecv, sendrecv_replace,
    wait, waitall, waitany, waitsome, test, testall, testany, testsome,
};

struct RankSetup {
    const RealMpi* real = nullptr;
    Clock* clock = nullptr;
    const Log* log = nullptr;
    const Settings* settings = nullptr;
    // Where rings live: a direct one first, then a fabric; `backend` may be either. Null:
    // pairs that the other one does not reach are carried by the real MPI.
    Backend* backend = nullptr;
    std::string backend_reason; // why there is none
    Backend* fabric = nullptr;
    std::string fabric_reason;
    int world_rank = 0;
    int world_size = 1;
    // what the real MPI takes of a send before its receiver is there, if that is known
    std::uint64_t native_eager = 0;
    int spin_limit = 2000;      // polls that find nothing before the core is offered to others
    bool threaded = false;
    std::size_t requests_bytes = 0; // addresses for requests, by 256 KiB; 0: as many as there are
    MPI_Comm private_comm = nullptr; // our duplicate of MPI_COMM_WORLD, MPI_ERRORS_RETURN
    // the address of a peer's backend, or "" with the reason; asked on first use
    std::function<std::string(int peer, std::string& why)> address_of;
    std::function<std::string(int peer, std::string& why)> fabric_address_of;
    // Once a fabric has failed and the peer does not answer by the real MPI: true, with one
    // clause, when nothing leaves this host any more. Null: nobody knows.
    std::function<bool(std::string& why)> cut_off;
    // Told the line with which the job ends for want of a way to a peer.
    std::function<void(const char* line)> last_words;
    DeviceMemory* devices = nullptr; // null: there is no such memory
    const RouteRules* rules = nullptr; // STORM_ROUTE_FILE; null: none
    // A report in the middle of the job: asked for by a signal handler, and what takes
    // it. Called by whichever thread sees it first, also from inside the real MPI: it
    // calls no MPI.
    std::atomic<bool>* asked = nullptr;
    std::function<void(const RankReport&)> answer;
};

class Rank {
public:
    explicit Rank(const RankSetup& setup);
    ~Rank();
    Rank(const Rank&) = delete;

    // ---- what a call is about (interpose/ asks before it decides)
    Comm* find(MPI_Comm handle)
    {
        if (handle == last_handle_ && !threaded_) [[likely]]
            return last_comm_;
        return find_slow(handle);
    }
    TypeInfo* type_of(MPI_Datatype handle);
    bool owns(MPI_Request request) const
    {
        return reinterpret_cast<std::uintptr_t>(request) - requests_at_ < requests_bytes_;
    }
    bool is_done(MPI_Request request) const { return request == real_.request_done; }
    bool owns_message(MPI_Message message) const;
    int tag_max() const { return tag_max_; }

    // ---- communicators
    // The program made `handle`: it is routed under `identity` from now on.
    Comm* adopt(MPI_Comm handle, std::uint64_t identity);
    // Next identity of which we are member 0.
    std::uint64_t next_identity();
    void free_comm(Comm& comm, MPI_Comm handle);
    void rename(Comm& comm, const char* name);
    bool all_in_world(MPI_Comm handle);
    bool all_in(MPI_Comm handle, MPI_Group whole);

    void forget_type(MPI_Datatype handle);

    // ---- messages; arguments are valid, the communicator is routed, nobody is PROC_NULL
    int send(const void* buffer, int count, TypeInfo& type, int dest, int tag, Comm& comm,
             Mode mode);
    MPI_Request isend(const void* buffer, int count, TypeInfo& type, int dest, int tag,
                      Comm& comm, Mode mode);
    MPI_Request send_init(const void* buffer, int count, TypeInfo& type, int dest, int tag,
                          Comm& comm, Mode mode);
    int recv(void* buffer, int count, TypeInfo& type, int source, int tag, Comm& comm,
             MPI_Status* status);
    MPI_Request irecv(void* buffer, int count, TypeInfo& type, int source, int tag, Comm& comm);
    MPI_Request recv_init(void* buffer, int count, TypeInfo& type, int source, int tag,
                          Comm& comm);
    void start(Request& request);
    bool iprobe(int source, int tag, Comm& comm, MPI_Status* status);
    void probe(int source, int tag, Comm& comm, MPI_Status* status);
    MPI_Message improbe(int source, int tag, Comm& comm, MPI_Status* status); // null: nothing
    MPI_Message mprobe(int source, int tag, Comm& comm, MPI_Status* status);
    int mrecv(void* buffer, int count, TypeInfo& type, MPI_Message message, MPI_Status* status);
    MPI_Request imrecv(void* buffer, int count, TypeInfo& type, MPI_Message message);
    // A communicator that the real MPI is making under `made`, and then our agreement.
    MPI_Request duplicate(MPI_Request made, MPI_Comm* where, std::array<std::int64_t, 3> identity);
    Request* new_request();

    // ---- completion; arrays may hold requests of ours and of the real MPI, null ones too
    int wait(MPI_Request* request, MPI_Status* status)
    {
        return wait_as(Call::wait, request, status);
    }
    int wait_as(Call call, MPI_Request* request, MPI_Status* status);
    int test(MPI_Request* request, int* flag, MPI_Status* status);
    void null_test(int* flag, MPI_Status* status)
    {
        *flag = 1;
        empty_status(status, false);
    }
    int waitall(int count, MPI_Request* requests, MPI_Status* statuses);
    int testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses);
    int waitany(int count, MPI_Request* requests, int* index, MPI_Status* status);
    int testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status);
    int waitsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses);
    int testsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses);
    int get_status(MPI_Request request, int* flag, MPI_Status* status);
    void free_request(MPI_Request* request);
    void cancel(Request& request);
    MPI_Fint index_of(MPI_Request request) const;
    Request* request_at(MPI_Fint index) const { return pool_.at(index); }
    MPI_Fint message_index(MPI_Message message);
    MPI_Message message_at(MPI_Fint index) const;

    // ---- buffers that the CPU must not touch
    bool on_device(const void* buffer, int count, const TypeInfo& type) const
    {
        return devices_.possible() && touches_device(buffer, count, type);
    }
    // Brings the data of such a buffer to `out`, as elements of another type of that size.
    int fetch_from_device(const void* buffer, int count, const TypeInfo& type, void* out, int out_count,
                          MPI_Datatype out_type);

    // Reports an error as the real MPI does from this call; returns its code.
    int raise(Call call, MPI_Comm where, int error);

    // ---- buffered sends: our part of the accounting for the program's buffer
    void attach_buffer(std::uint64_t bytes) { set_word(attached_, bytes); }
    void drain_buffered();
    bool buffer_allows(std::uint64_t bytes) const { return bytes <= glance_at(attached_); }
    std::uint64_t attached() const { return glance_at(attached_); }

    // ---- what calls that find nothing cost: inlined into the entry points
    // True when there is no record, no claim, nothing of ours to push or to test, and
    // it is not the real MPI's turn. Not for programs with threads.
    bool nothing_new()
    {
        // relaxed loads: hints; whoever acts on them loads again with acquire
        for (const Inbound& in : inbound_)
            if (std::atomic_ref(*const_cast<std::uint64_t*>(in.word)).load(std::memory_order_relaxed) != 0)
                return false;
        return std::atomic_ref(*const_cast<std::uint64_t*>(doorbell_)).load(std::memory_order_relaxed) == 0 &&
               (transfers_ | waiting_.size() | held_) == 0 && --until_turn_ > 0;
    }
    bool pending_quietly(MPI_Request handle)
    {
        return owns(handle) &&
               reinterpret_cast<const Request*>(handle)->active();
    }
    // Each true: the call found nothing, and has been counted.
    bool test_is_empty(MPI_Request handle)
    {
        return !threaded_ && pending_quietly(handle) && nothing_new() && count_empty();
    }
    bool testany_is_empty(int count, const MPI_Request* requests)
    {
        if (threaded_)
            return false;
#pragma GCC unroll 4
        for (const MPI_Request* end = requests + (count > 0 ? count : 0); requests != end; ++requests)
            if (!pending_quietly(*requests))
                return false;
        return count > 0 && nothing_new() && count_empty();
    }
    bool probe_is_empty(const Comm& comm)
    {
        return !threaded_ && comm.arrivals.empty() && nothing_new() && count_empty();
    }

    // ---- progress
    // One look at everything; true when something moved.
    enum class Look : std::uint8_t {
        test,   // the real MPI and the fabric when their time has come
        wait,   // the caller waits: the fabric at once
        inside, // from inside the real MPI, which has no turn
    };
    bool poll(Look look = Look::test);
    int progress_inside();      // from the real MPI's progress engine
    void place_sends(bool may_wait); // what was sent before is in its target's memory
    // Something of the real MPI has ended, a collective perhaps: the next look gives it and
    // the fabric their turn. Carried records and fabric writes from before it are seen.
    void look_soon()
    {
        set_word(until_turn_, 1);
        set_word(until_carry_, 1);
        set_word(turn_due_, 0);
        set_word(fabric_due_, 0);
    }
    void quiesce();             // before MPI_Finalize: all sends have left, all have arrived
    bool quiesced();            // the same without waiting: one look; true at the end
    bool threaded() const { return threaded_; }

    // ---- what the report shows (rank_report.cc)
    Counters counters() const;
    RankReport report(bool waits); // `waits`: what it waits for too
    bool begin_region(const std::string& name);
    bool end_region(const std::string& name); // false: none of this name is open
    bool in_region(const std::string& name) const;
    const RankSetup& setup() const { return setup_; }

private:
    friend struct RankTest;

    // While it lives, callbacks from the real MPI on this thread do nothing.
    class InReal {
    public:
        explicit InReal(Rank& rank) : depth_(rank.in_real()) { ++depth_; }
        ~InReal() { --depth_; }
        InReal(const InReal&) = delete;

    private:
        int& depth_;
    };
    int& in_real() { return threaded_ ? in_real_here : in_real_; }
    // How a wait treats its core: spin, then yield, then short sleeps.
    class Idle {
    public:
        explicit Idle(Rank& rank) : rank_(rank) {}
        void step();

    private:
        Rank& rank_;
        int polls_ = 0;
        std::uint64_t yielding_since_ = 0;
    };
    template <class Done>
    void wait_until(Done done)
    {
        Idle idle(*this);
        while (!done())
            if (!poll(Look::wait))
                idle.step();
    }
    void tally(std::uint64_t& counter, std::uint64_t by = 1)
    {
        if (threaded_) [[unlikely]] // relaxed: counts order nothing
            std::atomic_ref(counter).fetch_add(by, std::memory_order_relaxed);
        else
            counter += by;
    }

    Comm* find_slow(MPI_Comm handle);
    std::unique_lock<std::shared_mutex> registry();
    Comm* hold_by_id(std::uint64_t identity);
    Source& source(Comm& comm, int member);
    Channel& channel(int world_rank);
    void discard(Comm& comm);
    void drop(Comm& comm);

    static void fill(Request& request, Request::What what, const void* buffer, int count,
                     TypeInfo& type, int rank, int tag, Comm& comm);
    // A request that outlives the call: it holds its datatype and communicator.
    Request& keep(Request::What what, const void* buffer, int count, TypeInfo& type, int rank, int tag,
                  Comm& comm);

    // sending (send.cc)
    bool send_at_once(Source& source, const void* buffer, int count, const TypeInfo& type,
                      std::uint64_t bytes, int tag);
    void start_send(Request& request, bool blocking);
    void send_self(Request& request, std::uint64_t bytes);
    std::int32_t announce_native(Request& request, Source& source, std::uint64_t bytes);
    std::int32_t native_tag_after(std::uint32_t number) const;
    int post_native(Request& request, int world, int native_tag, std::uint64_t bytes);
    void copy(std::byte* to, const std::byte* from, std::uint64_t bytes);
    bool rides(const Comm& comm, int tag, std::uint64_t bytes) const;
    bool touches_device(const void* buffer, int count, const TypeInfo& type) const;
    void define(Source& source);
    void control(Channel& channel, Kind kind, std::int32_t tag, std::uint32_t comm,
                 const void* prefix, std::uint32_t bytes);
    void enqueue(Channel& channel, Outgoing&& outgoing);
    bool push(Channel& channel, Outgoing& outgoing);
    bool push_control(Channel& channel, Outgoing& outgoing);
    bool push_carried(Channel& channel, Outgoing& outgoing);
    void sent(Outgoing& outgoing);
    bool make_room(Channel& channel);
    void carry(Channel& channel, Outgoing& outgoing);
    void carry_record(Channel& channel, RecordHeader header, const void* prefix, std::uint64_t prefix_bytes,
                      const std::byte* data = nullptr, std::uint64_t bytes = 0);
    bool push_pending(Channel& channel);
    bool push_all_pending(bool placing);
    bool any_waiting() const;
    bool all_placed();
    void finish_part(Request& request, std::uint8_t part);
    void finish(Request& request);
    void end_unseen(Request& request);

    // rings: had, asked for, grown, published (connect.cc)
    // While it lives the fabric may be called: the caller holds its lock, and the real MPI
    // that the fabric may call does not bring us back to it.
    class AtFabric {
    public:
        explicit AtFabric(Rank& rank) : depth_(rank.fabric_calls_mpi_ ? &rank.in_real() : nullptr)
        {
            if (depth_ == nullptr)
                return;
            ++*depth_;
            rank.fabric_->inside_mpi(inside_here);
        }
        ~AtFabric()
        {
            if (depth_ != nullptr)
                --*depth_;
        }
        AtFabric(const AtFabric&) = delete;

    private:
        int* depth_;
    };
    void connect(Channel& channel);
    Status claim(Channel& channel, Lane& lane, std::string& why);
    void begin_ring(Channel& channel, const Lane& lane, bool over_fabric);
    void ask(Channel& channel, std::uint64_t bytes);
    void ask_again(bool may_wait);
    void get_granted(Channel& channel);
    void succeed(Channel& channel, const Lane& next);
    void publish(Channel& channel);
    bool flush();
    void leave();
    // What is held back leaves with every call but nonblocking sends: those that wait see to
    // it, those that test try.
    void leave_held()
    {
        if (glance_at(held_) != 0) [[unlikely]]
            leave();
    }
    void flush_held()
    {
        if (glance_at(held_) != 0) [[unlikely]]
            flush();
    }
    bool look_at_fabric(Look look);
    void collect_words();
    void collect_losses();

    // what is sent beside the messages, and the loss of the fabric (failover.cc)
    struct Letter {
        Channel* to = nullptr;
        Kind kind = Kind::word;
        std::string bytes;
    };
    struct Loss { // an event of the channel
        Channel* channel = nullptr;
        Kind what = Kind::seal; // seal: the fabric failed; sealed, moved: the peer said so
        SealedPrefix place = {};
        std::string why;
    };
    void post_letter(Channel& channel, Kind kind, const void* bytes, std::size_t size);
    void send_letters(bool may_wait);
    void note_loss(Loss&& loss);
    void mend(bool may_wait);
    bool mend(const Loss& loss, bool may_wait);
    void give_up(Channel& channel, const std::string& why);
    void stop_reading(Channel& channel, std::uint64_t ref, const std::string& why);
    void replay(Channel& channel, const SealedPrefix& from);
    void drop_former(Channel& channel);
    void take_word(const Word& word);
    void tell_loss(const Channel& channel, const std::string& why);
    void watch_links();
    std::string why_carried(int peer) const;
    void cut_off(int peer, int error);
    void end_job(const std::string& what);
    bool at_rest(); // all that was sent is where it is going, or with the real MPI

    // receiving (receive.cc)
    bool drain(Channel& channel);
    void handle(Channel& channel, const RecordHeader& header, const std::byte* payload);
    void on_eager(Source& source, int tag, const std::byte* payload, std::uint64_t bytes);
    void on_first(Channel& channel, Source& source, int tag, const std::byte* payload,
                  std::uint64_t bytes, bool synchronous);
    void on_more(Channel& channel, const std::byte* payload, std::uint64_t bytes);
    void on_native(Source& source, int tag, const NativePrefix& prefix);
    void on_ack(std::uint64_t cookie);
    void on_define(Channel& channel, std::uint32_t number, const DefinePrefix& prefix);
    void on_retire(Channel& channel, std::uint32_t number);
    void on_grow(Channel& channel, const GrowPrefix& prefix, bool carried);
    [[noreturn]] void corrupt(const Channel& channel, const char* what);
    Source& entry_source(Channel& channel, std::uint32_t number);
    Message* new_message(Source& source, int tag, std::uint64_t total, bool keep_bytes);
    void free_message(Message* message);
    void open_receive(Request& request);
    void start_receive(Request& request);
    void take(Message& message, Request& request);
    void deliver(Message& message, Request& request);
    void all_here(Message& message);
    void receive_native(Request& request, Source& source, int native_tag, std::uint64_t total);
    void finish_receive(Request& request, int from, int tag, std::uint64_t bytes,
                        int error = MPI_SUCCESS);
    void deliver_bytes(Request& request, int from, int tag, const std::byte* bytes, std::uint64_t total,
                       int error);
    void place_on_device(Request& request, int from, int tag, const std::byte* bytes, std::uint64_t total);
    void pull(Message& message);
    void pulled(Message& message, int error);
    void acknowledge(Source& source, std::uint64_t cookie);
    void send_acks(bool may_wait);
    struct Inbound {
        const std::uint64_t* word = nullptr;
        Channel* channel = nullptr;
    };
    void read_new(Inbound& in);
    bool look_for_lanes();
    void accept_lanes(Backend& backend);
    void read_from(Channel& channel, const Lane& lane, bool fabric);
    void handle_carried(Channel& channel, const RecordHeader& header, const std::byte* payload);
    Message* message_of(MPI_Message handle) const;
    void probed(const Message& message, MPI_Status* status) const;
    Message* probe_arrived(int source, int tag, Comm& comm, bool matched, MPI_Status* status);
    Message* probe_once(int source, int tag, Comm& comm, bool matched, MPI_Status* status);
    void receive_matched(MPI_Message handle, Request& request);

    // completion (complete.cc)
    struct Split; // an array of requests, those of the real MPI apart
    void settle(MPI_Request* slot, MPI_Status* status, bool with_error, int& error, MPI_Comm& where);
    struct Glance {
        int first = -1;      // the first request of ours that is complete
        bool active = false; // one of ours is not
        bool native = false; // the real MPI has some
    };
    Glance glance(int count, const MPI_Request* requests);
    int any(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status, Call call);
    int none_active(int* index, int* flag, MPI_Status* status) const;
    int some(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses,
             Call call);
    void report_some(MPI_Request* requests, int* done, int* indices, MPI_Status* statuses,
                     const std::vector<int>& ready, const Split& split, int native_count,
                     const std::vector<int>& native_at,
                     const std::vector<MPI_Status>& native_statuses, int& error, MPI_Comm& where);
    void empty_status(MPI_Status* status, bool with_error) const
    {
        if (status == MPI_STATUS_IGNORE)
            return;
        status->MPI_SOURCE = MPI_ANY_SOURCE;
        status->MPI_TAG = MPI_ANY_TAG;
        status->_ucount = 0;
        status->_cancelled = 0;
        if (with_error)
            status->MPI_ERROR = MPI_SUCCESS;
    }
    void fill_status(const Request& request, MPI_Status* status, bool with_error) const;
    void release(Request& request);
    void give_back(Request& request);
    bool advance_duplicates();
    bool advance(Request& duplicate);

    // native operations under way on the private communicator (progress.cc)
    struct NativeOp {
        Request* request = nullptr;   // told at the end
        std::byte* owned = nullptr;   // freed at the end
        std::uint64_t owned_bytes = 0;
        Message* message = nullptr;   // whose bytes it brings
        bool buffered = false;        // a buffered send's copy: nobody waits for it
        int to = -1;                  // whom the job cannot go on without, if it fails
    };
    void track(MPI_Request native, NativeOp op);
    void take_tracked();
    bool turn();
    bool test_native();
    void native_done(NativeOp& op, int error);
    void post_carry_receive();
    bool test_carry();

    storm_sums moved_so_far() const;

    void answer() // at a turn or inside the real MPI: no lock is waited for that is held over its calls
    {
        // relaxed: the handler's store carries no data with it
        if (setup_.asked != nullptr && setup_.asked->load(std::memory_order_relaxed)) [[unlikely]]
            answer_now();
    }
    void answer_now();
    enum class Busy { wait, glance }; // what is done about a channel that another thread has
    struct Sent;                      // to one peer
    class OnChannel;
    std::vector<Channel*> channels_now() const;
    std::vector<Sent> all_sent(Busy busy) const;
    Counters sums(const std::vector<Sent>& all) const;
    RankReport told(bool waits, Busy busy);
    void tell_waits(RankReport& report, Busy busy);
    void select(Comm& comm, const char* name);

    bool count_empty()
    {
        tally(counters_.empty_tests);
        return true;
    }

    // what a call that finds nothing loads, in two cache lines
    alignas(64) std::uintptr_t requests_at_ = 0; // the pool's range
    std::size_t requests_bytes_ = 0;
    std::vector<Inbound> inbound_; // with threads as large as the job from the start: it never moves
    std::size_t inbound_count_ = 0;
    const std::uint64_t* doorbell_;
    const bool threaded_;
    std::uint32_t held_ = 0; // something was published that the fabric may hold back
    int in_real_ = 0;
    std::int64_t until_turn_ = 16;
    std::size_t transfers_ = 0; // operations of ours that the real MPI has under way
    std::vector<Channel*> waiting_; // (t)
    Counters counters_;

    const RankSetup setup_;
    const RealMpi& real_;
    const Settings& settings_;
    Backend* const near_;   // direct, or null
    Backend* const fabric_; // not direct, or null
    const bool fabric_calls_mpi_;
    DeviceMemory& devices_;
    static thread_local constinit int in_real_here;
    static thread_local constinit bool inside_here; // in progress_inside

    // ---- leaves (lock.hh)
    mutable std::shared_mutex registry_; // communicators, channels
    mutable Lock tables_;                // what else is a table of this rank: marked (t)
    Lock pool_lock_;
    Lock backend_lock_;

    MPI_Comm last_handle_ = nullptr;
    Comm* last_comm_ = nullptr;
    std::unordered_map<MPI_Comm, Comm*> by_handle_;
    std::unordered_map<std::uint64_t, std::unique_ptr<Comm>> comms_;
    std::vector<std::uint32_t> free_numbers_;
    std::uint32_t next_number_ = 0;
    std::uint32_t identities_ = 2;
    MPI_Group world_group_ = nullptr;

    std::unordered_map<int, std::unique_ptr<Channel>> channels_;
    RequestPool pool_;
    TypeCache types_;
    TagSet tags_;
    int tag_max_ = 32767;
    const std::uint64_t small_; // payloads that a send copies rather than wait

    std::unordered_set<const Message*> exposed_; // handles of matched messages (t)
    std::vector<Message*> message_handles_;      // by Fortran index (t)
    struct Ack {
        Channel* channel = nullptr; // null: ourselves
        std::uint64_t cookie = 0;
    };
    std::vector<Ack> acks_; // matched here, to be told (t)
    std::size_t acks_waiting_ = 0;

    // under native_lock_, which is only tried; others leave what they began in the inbox
    Lock native_lock_;
    std::vector<std::pair<MPI_Request, NativeOp>> native_inbox_; // (t)
    std::vector<Request*> duplicates_inbox_;                     // (t)
    std::vector<MPI_Request> native_requests_;
    std::vector<NativeOp> native_ops_;
    std::vector<Request*> duplicates_; // communicators that are being made
    std::vector<int> done_indices_;
    std::vector<MPI_Status> done_statuses_;
    int until_carry_ = 8;
    std::uint64_t inside_calls_ = 0;
    MPI_Request carry_request_ = nullptr;
    std::vector<std::byte> carry_buffer_;
    std::unique_ptr<Termination> ending_; // of this job; from quiesced() on
    int carried_from_ = -1; // whose record stands in the buffer and is not handled; none: -1

    std::uint32_t sent_since_receive_ = 0; // records written since the last one was read
    std::uint64_t backlog_ = 0;      // messages that arrived and are not received
    std::uint64_t backlog_peak_ = 0; // since there were none
    std::uint32_t self_tag_ = 0;
    std::uint64_t carried_bytes_ = 0; // of our copies that the real MPI still reads
    std::uint64_t buffered_native_ = 0; // the same for buffered sends, which nobody waits for
    std::uint64_t buffered_ = 0; // bytes of our copies of sends that wait for room
    std::uint64_t attached_ = 0;
    std::uint64_t turn_ticks_ = 0;
    std::uint64_t turn_cost_ = 0;
    std::uint64_t turns_ticks_ = 0; // in all turns
    std::uint64_t turn_due_ = 0;    // with a fabric, whose looks come more often
    std::uint64_t fabric_due_ = 0;
    std::uint64_t fabric_every_ = 0; // ticks; 0 while things move
    std::uint64_t fabric_cost_ = 0;
    bool unplaced_ = false; // something was published since all was placed

    std::vector<Channel*> askers_; // (t)
    std::size_t asking_ = 0;
    std::vector<Letter> letters_;  // (t)
    std::size_t letters_waiting_ = 0;
    std::deque<Loss> losses_;      // (t)
    std::size_t losses_waiting_ = 0;
    std::size_t sealing_ = 0;      // channels
    bool loss_told_ = false;       // (t)
    std::uint64_t links_due_ = 0;
    std::int64_t turn_budget_ = 16;
    std::unordered_map<int, std::string> carried_why_;
    Regions regions_; // (t)
};

} // namespace storm
