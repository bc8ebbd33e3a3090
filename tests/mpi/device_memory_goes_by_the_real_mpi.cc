// SPDX-License-Identifier: MIT
// Messages from and to memory that the CPU must not touch, in every way to send and to
// receive: the data is right, and nobody but the real MPI touches the pages. The library
// that stands for the runtime is there from the start, or is loaded after MPI_Init.
// run: ranks=2,3 timeout=60 preload=devices/libcuda.so.1 mpirun='--mca btl_vader_single_copy_mechanism none'
// run: ranks=2 timeout=60 args=load=libcuda.so.1 mpirun='--mca btl_vader_single_copy_mechanism none'
// run: ranks=2 timeout=60 preload=devices/libamdhip64.so.6 mpirun='--mca btl_vader_single_copy_mechanism none'
// run: ranks=2 timeout=60 args=load=libamdhip64.so.6 mpirun='--mca btl_vader_single_copy_mechanism none'
#include "check.h"
#include "devices/runtime.h"

#include <dlfcn.h>
using namespace check;

static void *runtime = RTLD_DEFAULT;

template <class Function>
static Function *of_runtime(Function *, const char *name) {
    void *found = dlsym(runtime, name);
    if (!expect(found != nullptr, "no %s", name)) MPI_Abort(MPI_COMM_WORLD, 1);
    return reinterpret_cast<Function *>(found);
}
#define RUNTIME(name, ...) of_runtime(name, #name)(__VA_ARGS__)

enum Send { send, ssend, rsend, bsend, isend, issend, irsend, ibsend, send_init, bsend_init, sends };
enum Receive { irecv, irecv_tested, recv_init, recv, mrecv, imrecv, probe_recv, sendrecv, receives };
static const char *receive_names[] = {"irecv", "irecv_tested", "recv_init", "recv",
                                      "mrecv", "imrecv",       "probe",     "sendrecv"};
enum Kind { bytes, holes, absolute, kinds };

static constexpr int room = 160000;
static unsigned char *device_out, *device_in, *host_out, *host_in;
static MPI_Comm comm;

// `n` bytes at a place, in one of three ways to describe them.
struct Place {
    void *buffer;
    int count = 1;
    MPI_Datatype type = MPI_BYTE;
    Place(unsigned char *at, int n, Kind kind) : buffer(at) {
        if (kind == bytes) {
            count = n;
            return;
        }
        if (kind == holes) {
            MPI_Type_vector(n, 1, 2, MPI_BYTE, &type);
        } else {
            MPI_Aint where;
            MPI_Get_address(at, &where);
            MPI_Type_create_hindexed(1, &n, &where, MPI_BYTE, &type);
            buffer = MPI_BOTTOM;
        }
        MPI_Type_commit(&type);
    }
    ~Place() {
        if (type != MPI_BYTE) MPI_Type_free(&type);
    }
};

static void send_as(int way, const Place &p, int to) {
    MPI_Request request = MPI_REQUEST_NULL;
    RUNTIME(device_close);
    switch (way) {
        case send: MPI_Send(p.buffer, p.count, p.type, to, 7, comm); break;
        case ssend: MPI_Ssend(p.buffer, p.count, p.type, to, 7, comm); break;
        case rsend: MPI_Rsend(p.buffer, p.count, p.type, to, 7, comm); break;
        case bsend: MPI_Bsend(p.buffer, p.count, p.type, to, 7, comm); break;
        case isend: MPI_Isend(p.buffer, p.count, p.type, to, 7, comm, &request); break;
        case issend: MPI_Issend(p.buffer, p.count, p.type, to, 7, comm, &request); break;
        case irsend: MPI_Irsend(p.buffer, p.count, p.type, to, 7, comm, &request); break;
        case ibsend: MPI_Ibsend(p.buffer, p.count, p.type, to, 7, comm, &request); break;
        case send_init: MPI_Send_init(p.buffer, p.count, p.type, to, 7, comm, &request); break;
        case bsend_init: MPI_Bsend_init(p.buffer, p.count, p.type, to, 7, comm, &request); break;
    }
    if (way >= send_init) MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (way >= send_init) MPI_Request_free(&request);
}

// Returns the receive's error; it is posted before `ready` is told, if it can be.
static int receive_as(int way, const Place &p, int from, MPI_Status &status) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message;
    int error = MPI_SUCCESS, flag = 0;
    RUNTIME(device_close);
    if (way <= irecv_tested) MPI_Irecv(p.buffer, p.count, p.type, from, 7, comm, &request);
    if (way == recv_init) {
        MPI_Recv_init(p.buffer, p.count, p.type, from, 7, comm, &request);
        MPI_Start(&request);
    }
    MPI_Send(nullptr, 0, MPI_BYTE, from, 8, comm);
    switch (way) {
        case irecv:
        case recv_init: error = MPI_Wait(&request, &status); break;
        case irecv_tested:
            while (!flag && !error) error = MPI_Test(&request, &flag, &status);
            break;
        case recv: return MPI_Recv(p.buffer, p.count, p.type, from, 7, comm, &status);
        case mrecv:
            MPI_Mprobe(from, 7, comm, &message, MPI_STATUS_IGNORE);
            return MPI_Mrecv(p.buffer, p.count, p.type, &message, &status);
        case imrecv:
            while (!flag) MPI_Improbe(MPI_ANY_SOURCE, 7, comm, &flag, &message, MPI_STATUS_IGNORE);
            MPI_Imrecv(p.buffer, p.count, p.type, &message, &request);
            return MPI_Wait(&request, &status);
        case probe_recv:
            MPI_Probe(from, MPI_ANY_TAG, comm, &status);
            return MPI_Recv(p.buffer, p.count, p.type, from, status.MPI_TAG, comm, &status);
        case sendrecv:
            return MPI_Sendrecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, p.buffer, p.count, p.type, from, 7,
                                comm, &status);
    }
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    return error;
}

// Every byte of `at`, told apart by its kind: what came, and what must not have changed.
static bool arrived(unsigned char *at, int n, Kind kind, unsigned seed) {
    std::vector<unsigned char> got(room);
    RUNTIME(device_copy, got.data(), at, got.size());
    const int step = kind == holes ? 2 : 1;
    for (int i = 0; i < room; ++i) {
        const bool data = i % step == 0 && i / step < n;
        if (got[i] != (data ? byte_of(seed, kind == holes ? i : i / step) : 0xEE)) return false;
    }
    return true;
}

static void clear(unsigned char *at) {
    const std::vector<unsigned char> nothing(room, 0xEE);
    RUNTIME(device_copy, at, nothing.data(), nothing.size());
}

static void exchange(int from, int to, int send_way, int receive_way, Kind kind, int n, int fits, int memory) {
    if (rank == from) {
        Place p(memory & 1 ? device_out : host_out, n, kind);
        MPI_Recv(nullptr, 0, MPI_BYTE, to, 8, comm, MPI_STATUS_IGNORE);
        const bool ready = send_way == rsend || send_way == irsend;
        send_as(ready && receive_way > recv_init ? int(send) : send_way, p, to);
    } else if (rank == to) {
        unsigned char *at = memory & 2 ? device_in : host_in;
        clear(at);
        MPI_Status status = fresh_status();
        Place p(at, fits, kind);
        const int error = receive_as(receive_way, p, from, status);
        if (send_way == send)
            say("%d of %d bytes by %s: %s, %s", fits, n, receive_names[receive_way], error_class(error).c_str(),
                in_words(status, MPI_BYTE).c_str());
        expect(error == MPI_SUCCESS || fits < n, "%d bytes fail", n);
        expect(arrived(at, std::min(n, fits), kind, 3), "%d bytes, sent %d, received %d, memory %d, kind %d", n,
               send_way, receive_way, memory, kind);
    }
}

static void to_itself(int n, int memory) {
    unsigned char *out = memory & 1 ? device_out : host_out, *in = memory & 2 ? device_in : host_in;
    for (int posted = 0; posted < 2; ++posted) {
        MPI_Request requests[2];
        clear(in);
        if (posted) MPI_Irecv(in, n, MPI_BYTE, rank, 1, comm, &requests[0]);
        MPI_Isend(out, n, MPI_BYTE, rank, 1, comm, &requests[1]);
        if (!posted) MPI_Irecv(in, n, MPI_BYTE, rank, 1, comm, &requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        expect(arrived(in, n, bytes, 3), "%d bytes to itself, memory %d", n, memory);
    }
}

static void replaced(int n, Kind kind) {
    Place p(device_in, n, kind);
    RUNTIME(device_copy, device_in, host_out, room);
    MPI_Status status = fresh_status();
    MPI_Sendrecv_replace(p.buffer, p.count, p.type, (rank + 1) % size, 5, (rank + size - 1) % size, 5, comm,
                         &status);
    say("replaced %d: %s", n, in_words(status, MPI_BYTE).c_str());
    std::vector<unsigned char> got(room);
    RUNTIME(device_copy, got.data(), device_in, got.size());
    expect(same(got.data(), room, 3), "%d bytes replaced, kind %d", n, kind);
}

// A range that was a device's is the CPU's, and again a device's.
static void changes_hands() {
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    auto *at = static_cast<unsigned char *>(RUNTIME(device_alloc, 8192));
    for (int turn = 0; turn < 6; ++turn) {
        RUNTIME(device_copy, at, host_out + turn, 4096);
        MPI_Sendrecv(at, 4096, MPI_BYTE, next, 6, host_in, 4096, MPI_BYTE, before, 6, comm, MPI_STATUS_IGNORE);
        expect(!std::memcmp(host_in, host_out + turn, 4096), "turn %d", turn);
        if (turn % 2 == 0) RUNTIME(device_free, at);
        else
            RUNTIME(device_take_back, at, 8192);
    }
}

// The runtime keeps an error that the program has not asked for, and gets none from us.
static void errors_are_the_programs() {
    auto *get = reinterpret_cast<int (*)()>(dlsym(runtime, "hipGetLastError"));
    if (!get) return;
    expect(get() == 0, "an error that is not the program's");
    RUNTIME(device_fail_once);
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Sendrecv(host_out, 100, MPI_BYTE, next, 6, host_in, 100, MPI_BYTE, before, 6, comm, MPI_STATUS_IGNORE);
    expect(get() == 700, "the program's error is lost");
}

static void load(const char *name) {
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 200);
    std::string folder(path, n > 0 ? std::size_t(n) : 0);
    folder.resize(folder.rfind('/') + 1);
    runtime = dlopen((folder + "devices/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!expect(runtime != nullptr, "%s", dlerror())) MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    std::vector<unsigned char> buffer(1 << 20), out = made(room, 3), in(room);
    MPI_Buffer_attach(buffer.data(), int(buffer.size()));
    host_out = out.data();
    host_in = in.data();
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int i = 0; i < 100; ++i) // all is on its way when the runtime comes
        MPI_Sendrecv(host_out, 64, MPI_BYTE, next, 1, host_in, 64, MPI_BYTE, before, 1, comm, MPI_STATUS_IGNORE);
    for (int i = 1; i < argc; ++i)
        if (!std::strncmp(argv[i], "load=", 5)) load(argv[i] + 5);
    device_out = static_cast<unsigned char *>(RUNTIME(device_alloc, room));
    device_in = static_cast<unsigned char *>(RUNTIME(device_alloc, room));
    RUNTIME(device_copy, device_out, host_out, room);
    clear(device_in);
    MPI_Request first[2]; // nothing else of MPI comes between the loading and these
    MPI_Irecv(device_in, 64, MPI_BYTE, before, 1, comm, &first[0]);
    MPI_Isend(device_out, 64, MPI_BYTE, next, 1, comm, &first[1]);
    MPI_Waitall(2, first, MPI_STATUSES_IGNORE);
    expect(arrived(device_in, 64, bytes, 3), "the first message");

    for (int from = 0; from < size; ++from)
        for (int memory = 1; memory < 4; ++memory)
            for (const int n : {1, 3000, 70000})
                for (int way = 0; way < int(sends) + int(receives); ++way) {
                    const int s = way < sends ? way : int(send), r = way < sends ? way % receives : way - sends;
                    exchange(from, (from + 1) % size, s, r, Kind(way % kinds), n, n, memory);
                    if (n > 1 && s == send) exchange(from, (from + 1) % size, s, r, bytes, n, n / 2, memory);
                }
    for (const int n : {0, 1, 3000, 70000}) {
        for (int memory = 1; memory < 4; ++memory) to_itself(n, memory);
        for (int kind = 0; kind < kinds; ++kind) replaced(n, Kind(kind));
    }
    const int asked = RUNTIME(device_asked, 1);
    expect(!dlsym(RTLD_DEFAULT, "storm_routed") || asked <= 2, "%d questions about two allocations", asked);
    changes_hands();
    errors_are_the_programs();
    expect(RUNTIME(device_touched) == 0, "%d touches", RUNTIME(device_touched));
    void *detached;
    int bytes_of_buffer;
    MPI_Buffer_detach(&detached, &bytes_of_buffer);
    MPI_Comm_free(&comm);
    return finish();
}
