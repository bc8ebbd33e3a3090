// SPDX-License-Identifier: MIT
// Wrong arguments give the real MPI's error class, on the right communicator, with
// one call of its handler; afterwards everything goes on.
// run: ranks=2 timeout=30
#include "check.h"
using namespace check;

static std::string handled;  // what the handler saw since the last report
static MPI_Comm copy;

static void handle(MPI_Comm *comm, int *error, ...) {
    const char *where = *comm == MPI_COMM_WORLD  ? "world"
                        : *comm == copy          ? "dup"
                        : *comm == MPI_COMM_SELF ? "self"
                                                 : "?";
    handled += std::string(" [") + where + " " + error_class(*error) + "]";
}

static void report(const char *what, int error) {
    say("%s: %s%s", what, error_class(error).c_str(), handled.c_str());
    handled.clear();
}

struct Arguments {
    const char *what;
    void *buffer;
    int count;
    MPI_Datatype type;
    int peer, tag;
    MPI_Comm comm;
};

static void sends(const Arguments &a) {
    MPI_Request request = MPI_REQUEST_NULL;
    say("-- sends with %s", a.what);
    using Send = int (*)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    using Isend = int (*)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    const std::pair<const char *, Send> blocking[] = {
        {"send", MPI_Send}, {"ssend", MPI_Ssend}, {"bsend", MPI_Bsend}, {"rsend", MPI_Rsend}};
    const std::pair<const char *, Isend> others[] = {
        {"isend", MPI_Isend},           {"issend", MPI_Issend},
        {"ibsend", MPI_Ibsend},         {"irsend", MPI_Irsend},
        {"send_init", MPI_Send_init},   {"ssend_init", MPI_Ssend_init},
        {"bsend_init", MPI_Bsend_init}, {"rsend_init", MPI_Rsend_init}};
    for (auto &[name, send] : blocking)
        report((std::string(a.what) + ", " + name).c_str(),
               send(a.buffer, a.count, a.type, a.peer, a.tag, a.comm));
    for (auto &[name, send] : others) {
        int error = send(a.buffer, a.count, a.type, a.peer, a.tag, a.comm, &request);
        report((std::string(a.what) + ", " + name).c_str(), error);
    }
}

static void receives(const Arguments &a) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    std::string what = a.what;
    report((what + ", recv").c_str(),
           MPI_Recv(a.buffer, a.count, a.type, a.peer, a.tag, a.comm, &status));
    report((what + ", irecv").c_str(),
           MPI_Irecv(a.buffer, a.count, a.type, a.peer, a.tag, a.comm, &request));
    report((what + ", recv_init").c_str(),
           MPI_Recv_init(a.buffer, a.count, a.type, a.peer, a.tag, a.comm, &request));
}

static void probes(const char *what, int peer, int tag, MPI_Comm comm) {
    MPI_Message message;
    MPI_Status status;
    int flag;
    std::string text = what;
    report((text + ", probe").c_str(), MPI_Probe(peer, tag, comm, &status));
    report((text + ", iprobe").c_str(), MPI_Iprobe(peer, tag, comm, &flag, &status));
    report((text + ", mprobe").c_str(), MPI_Mprobe(peer, tag, comm, &message, &status));
    report((text + ", improbe").c_str(), MPI_Improbe(peer, tag, comm, &flag, &message, &status));
}

static void sendrecvs(int peer) {
    int value = 0;
    MPI_Status status;
    struct {
        const char *what;
        int to, stag, scount, from, rtag, rcount;
    } cases[] = {{"wrong destination", size + 3, 1, 1, peer, 1, 1},
                 {"wrong source", peer, 1, 1, -7, 1, 1},
                 {"wrong send tag", peer, -9, 1, peer, 1, 1},
                 {"wrong receive tag", peer, 1, 1, peer, -9, 1},
                 {"wrong send count", peer, 1, -1, peer, 1, 1},
                 {"wrong receive count", peer, 1, 1, peer, 1, -1}};
    for (auto &c : cases)
        report((std::string("sendrecv ") + c.what).c_str(),
               MPI_Sendrecv(&value, c.scount, MPI_INT, c.to, c.stag, &value, c.rcount, MPI_INT,
                            c.from, c.rtag, copy, &status));
    report("sendrecv_replace wrong rank",
           MPI_Sendrecv_replace(&value, 1, MPI_INT, size, 1, peer, 1, copy, &status));
    report("sendrecv_replace wrong tag",
           MPI_Sendrecv_replace(&value, 1, MPI_INT, peer, -3, peer, 1, copy, &status));
}

static void completions() {
    MPI_Request null = MPI_REQUEST_NULL;
    int value = 0, flag = 0, index = 0, count = 0, indices[1];
    MPI_Status status;
    report("free null", MPI_Request_free(&null));
    report("cancel null", MPI_Cancel(&null));
    report("start null", MPI_Start(&null));
    report("startall null", MPI_Startall(1, &null));
    report("wait null address", MPI_Wait(nullptr, &status));
    report("waitall wrong count", MPI_Waitall(-1, &null, &status));
    report("waitall null array", MPI_Waitall(1, nullptr, &status));
    report("waitany wrong count", MPI_Waitany(-1, &null, &index, &status));
    report("testany wrong count", MPI_Testany(-1, &null, &index, &flag, &status));
    report("testall wrong count", MPI_Testall(-1, &null, &flag, &status));
    report("waitsome wrong count", MPI_Waitsome(-1, &null, &count, indices, &status));
    report("testsome wrong count", MPI_Testsome(-1, &null, &count, indices, &status));
    report("test null flag", MPI_Test(&null, nullptr, &status));
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, 1 - rank, 50, copy, &request);
    report("start of a plain request", MPI_Start(&request));
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Errhandler handler;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_create_errhandler(handle, &handler);
    static std::vector<char> space(1 << 16);
    MPI_Buffer_attach(space.data(), int(space.size()));
    int value = 1, peer = 1 - rank;
    MPI_Datatype uncommitted;
    MPI_Type_contiguous(3, MPI_INT, &uncommitted);
    for (bool returns : {false, true}) {
        for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF, copy})
            MPI_Comm_set_errhandler(comm, returns ? MPI_ERRORS_RETURN : handler);
        const Arguments wrong[] = {
            {"rank size", &value, 1, MPI_INT, size, 1, copy},
            {"rank -5", &value, 1, MPI_INT, -5, 1, copy},
            {"tag -5", &value, 1, MPI_INT, peer, -5, copy},
            {"count -1", &value, -1, MPI_INT, peer, 1, copy},
            {"null comm", &value, 1, MPI_INT, peer, 1, MPI_COMM_NULL},
            {"null type", &value, 1, MPI_DATATYPE_NULL, peer, 1, copy},
            {"null type, count 0", &value, 0, MPI_DATATYPE_NULL, peer, 1, copy},
            {"uncommitted type", &value, 1, uncommitted, peer, 1, copy},
            {"null buffer", nullptr, 1, MPI_INT, peer, 1, copy},
            {"wrong rank on world", &value, 1, MPI_INT, size, 1, MPI_COMM_WORLD},
            {"wrong rank on self", &value, 1, MPI_INT, 1, 1, MPI_COMM_SELF}};
        for (auto &arguments : wrong) {
            sends(arguments);
            receives(arguments);
        }
        sends({"any source as destination", &value, 1, MPI_INT, MPI_ANY_SOURCE, 1, copy});
        sends({"any tag in a send", &value, 1, MPI_INT, peer, MPI_ANY_TAG, copy});
        probes("rank size", size, 1, copy);
        probes("tag -5", peer, -5, copy);
        sendrecvs(peer);
        completions();
    }
    // All goes on.
    int in = -1, flag = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, peer, 1, &in, 1, MPI_INT, peer, 1, copy, MPI_STATUS_IGNORE);
    expect(in == peer, "after the errors: %d", in);
    MPI_Barrier(copy);
    for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF, copy}) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
        expect(!flag, "a wrong call sent something");
    }
    void *address;
    int bytes;
    MPI_Buffer_detach(&address, &bytes);
    MPI_Type_free(&uncommitted);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&copy);
    return finish();
}
