// SPDX-License-Identifier: MIT
// A message longer than its receive: error class, handler, fields of the status and
// bytes written in every call that receives or completes; the channel goes on.
// run: ranks=2 timeout=30
#include "check.h"
using namespace check;

static std::string handled;
static MPI_Comm copy;
static const int room = 40;

static void handle(MPI_Comm *comm, int *error, ...) {
    const char *where = *comm == MPI_COMM_WORLD ? "world" : *comm == copy ? "dup" : "?";
    handled += std::string(" [") + where + " " + error_class(*error) + "]";
}

static void report(const char *what, int bytes, int error, const MPI_Status *status,
                   const Guarded &buffer) {
    say("%s of %d: %s%s", what, bytes, error_class(error).c_str(), handled.c_str());
    if (status) say("%s of %d status: %s", what, bytes, in_words(*status, MPI_BYTE).c_str());
    expect(buffer.intact(), "%s of %d: bytes beyond the buffer", what, bytes);
    handled.clear();
}

// Receives one message into a buffer of 40 bytes in the way that is asked for.
static void receive(int way, int bytes) {
    static const char *names[] = {
        "recv",    "wait",    "test",       "waitall",          "testall",
        "waitany", "testany", "waitsome",   "testsome",         "sendrecv",
        "mrecv",   "imrecv",  "persistent", "sendrecv_replace", "get_status",
        "ignored", "vector"};
    Guarded buffer(room);
    MPI_Status status = fresh_status();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message;
    int error = MPI_SUCCESS, flag = 0, index = -1, count = 0, indices[1] = {-1}, value = 0;
    auto post = [&] { MPI_Irecv(buffer.data(), room, MPI_BYTE, 0, 7, copy, &request); };
    if ((way >= 1 && way <= 8) || way == 14) post();
    switch (way) {
        case 0:
            error =
                MPI_Recv(buffer.data(), room, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, &status);
            break;
        case 1: error = MPI_Wait(&request, &status); break;
        case 2:
            while (!flag && !error) error = MPI_Test(&request, &flag, &status);
            break;
        case 3: error = MPI_Waitall(1, &request, &status); break;
        case 4:
            while (!flag && !error) error = MPI_Testall(1, &request, &flag, &status);
            break;
        case 5: error = MPI_Waitany(1, &request, &index, &status); break;
        case 6:
            while (!flag && !error) error = MPI_Testany(1, &request, &index, &flag, &status);
            break;
        case 7: error = MPI_Waitsome(1, &request, &count, indices, &status); break;
        case 8:
            while (!count && !error) error = MPI_Testsome(1, &request, &count, indices, &status);
            break;
        case 9:
            error = MPI_Sendrecv(&value, 0, MPI_INT, MPI_PROC_NULL, 1, buffer.data(), room,
                                 MPI_BYTE, 0, 7, copy, &status);
            break;
        case 10:
            MPI_Mprobe(0, 7, copy, &message, MPI_STATUS_IGNORE);
            error = MPI_Mrecv(buffer.data(), room, MPI_BYTE, &message, &status);
            expect(message == MPI_MESSAGE_NULL, "mrecv leaves the handle");
            break;
        case 11:
            MPI_Mprobe(0, 7, copy, &message, MPI_STATUS_IGNORE);
            MPI_Imrecv(buffer.data(), room, MPI_BYTE, &message, &request);
            error = MPI_Wait(&request, &status);
            break;
        case 12:
            MPI_Recv_init(buffer.data(), room, MPI_BYTE, 0, 7, copy, &request);
            MPI_Start(&request);
            error = MPI_Wait(&request, &status);
            say("persistent handle stays: %d", request != MPI_REQUEST_NULL);
            if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
            break;
        case 13:
            error = MPI_Sendrecv_replace(buffer.data(), room, MPI_BYTE, MPI_PROC_NULL, 1, 0, 7,
                                         copy, &status);
            break;
        case 14:
            while (!flag && !error) error = MPI_Request_get_status(request, &flag, &status);
            report("get_status first", bytes, error, &status, buffer);
            error = MPI_Wait(&request, &status);
            break;
        case 15:
            error = MPI_Recv(buffer.data(), room, MPI_BYTE, 0, 7, copy, MPI_STATUS_IGNORE);
            break;
        case 16: {
            MPI_Datatype vector;
            MPI_Type_vector(5, 4, 8, MPI_BYTE, &vector);
            MPI_Type_commit(&vector);
            error = MPI_Recv(buffer.data(), 1, vector, 0, 7, copy, &status);
            for (int i = 0; i < room - 4; ++i)
                if (i % 8 >= 4) expect(buffer.data()[i] == 0xA5, "hole byte %d", i);
            MPI_Type_free(&vector);
            break;
        }
    }
    report(names[way], bytes, error, &status, buffer);
    say("%s handle null: %d, index %s, count %d %d", names[way], request == MPI_REQUEST_NULL,
        in_words(index).c_str(), count, indices[0]);
}

static const int ways = 17;
// Over shared memory Open MPI 4.1 itself writes beyond the buffer when a contiguous
// receive truncates a message of more than 4 KiB; into a vector it does not.
static const int sizes[] = {41, 400, 4000, 5000, 300000};

static void send(int bytes) {
    std::vector<unsigned char> data = made(bytes, bytes);
    MPI_Request request;
    MPI_Isend(data.data(), bytes, MPI_BYTE, 1, 7, copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Good and bad ones in one array: MPI_ERR_IN_STATUS and MPI_ERROR of each.
static void in_array(int call, bool world) {
    static const char *names[] = {"waitall", "testall", "waitsome", "testsome"};
    const int n = 4, lengths[] = {10, 300, 20, 4000};
    MPI_Comm comm = world ? MPI_COMM_WORLD : copy;
    if (rank == 0) {
        MPI_Barrier(comm);
        for (int i = 0; i < n; ++i) {
            auto data = made(lengths[i], i);
            MPI_Send(data.data(), lengths[i], MPI_BYTE, 1, i, comm);
        }
        MPI_Barrier(comm);  // all have arrived: none is pending any more
    } else {
        std::vector<Guarded> buffers(n, Guarded(room));
        MPI_Request requests[n];
        MPI_Status statuses[n], some[n];
        int indices[n], seen = 0, error = 0, flag = 0;
        for (int i = 0; i < n; ++i) {
            statuses[i] = some[i] = fresh_status();
            MPI_Irecv(buffers[i].data(), room, MPI_BYTE, 0, i, comm, &requests[i]);
        }
        MPI_Barrier(comm);
        MPI_Barrier(comm);
        if (call == 0) error = MPI_Waitall(n, requests, statuses);
        while (call == 1 && !flag && !error) error = MPI_Testall(n, requests, &flag, statuses);
        while (call >= 2) {
            int count = 0;
            int now = call == 2 ? MPI_Waitsome(n, requests, &count, indices, some)
                                : MPI_Testsome(n, requests, &count, indices, some);
            if (count == MPI_UNDEFINED) break;
            // How many come at once is chance; that each error is told is not.
            bool bad = false;
            for (int i = 0; i < count; ++i) {
                statuses[indices[i]] = some[i];
                if (some[i].MPI_ERROR == MPI_ERR_TRUNCATE) bad = true;
            }
            seen += count;
            expect((now == MPI_ERR_IN_STATUS) == bad, "%s returned %s", names[call],
                   error_class(now).c_str());
            expect(handled.empty() != bad, "%s: handler%s", names[call], handled.c_str());
            handled.clear();
        }
        say("%s in array: %s%s, %d seen", names[call], error_class(error).c_str(), handled.c_str(),
            seen);
        handled.clear();
        for (int i = 0; i < n; ++i) {
            say("%s in array [%d]: null %d, %s", names[call], i, requests[i] == MPI_REQUEST_NULL,
                in_words(statuses[i], MPI_BYTE).c_str());
            if (lengths[i] <= room) expect(same(buffers[i].data(), lengths[i], i), "data %d", i);
            expect(buffers[i].intact(), "bytes beyond buffer %d", i);
            if (requests[i] != MPI_REQUEST_NULL) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            handled.clear();
        }
    }
    MPI_Barrier(comm);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Errhandler handler;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_create_errhandler(handle, &handler);
    for (bool returns : {false, true}) {
        for (MPI_Comm comm : {MPI_COMM_WORLD, copy})
            MPI_Comm_set_errhandler(comm, returns ? MPI_ERRORS_RETURN : handler);
        for (int way = 0; way < ways; ++way)
            for (int bytes : sizes) {
                if (bytes > 4032 && way != 16) continue;
                if (number("way", way) != way || number("bytes", bytes) != bytes) continue;
                int in = -1;
                if (rank == 0) send(bytes);
                else
                    receive(way, bytes);
                // The channel goes on, on the same tag.
                if (rank == 0) MPI_Send(&bytes, 1, MPI_INT, 1, 7, copy);
                else
                    MPI_Recv(&in, 1, MPI_INT, 0, 7, copy, MPI_STATUS_IGNORE);
                expect(rank == 0 || in == bytes, "after: %d, not %d", in, bytes);
            }
        if (!returns)
            for (int call = 0; call < 4; ++call)
                for (bool world : {false, true}) in_array(call, world);
    }
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&copy);
    return finish();
}
