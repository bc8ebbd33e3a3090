// SPDX-License-Identifier: MIT
// Particle structs with padding (unchanged by a receive), MPI_BOTTOM with absolute
// addresses, MPI_PACKED and external32, types freed while in use.
// run: ranks=2 timeout=30
#include <cstddef>

#include "check.h"
using namespace check;

struct Particle {  // 3 doubles, int, char, padding
    double position[3];
    int id;
    char kind;
};

static MPI_Datatype particle_type() {
    const int lengths[] = {3, 1, 1};
    const MPI_Aint places[] = {offsetof(Particle, position), offsetof(Particle, id),
                               offsetof(Particle, kind)};
    MPI_Datatype parts[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR}, type, resized;
    MPI_Type_create_struct(3, lengths, places, parts, &type);
    MPI_Type_create_resized(type, 0, sizeof(Particle), &resized);
    MPI_Type_commit(&resized);
    MPI_Type_free(&type);
    return resized;
}

static void padding(int n) {
    MPI_Datatype type = particle_type();
    std::vector<Particle> out(n), in(n + 3);
    std::memset(static_cast<void *>(out.data()), 0x11, n * sizeof(Particle));
    std::memset(static_cast<void *>(in.data()), 0x77, in.size() * sizeof(Particle));
    for (int i = 0; i < n; ++i) out[i] = {{i * 1.5, -i * 2.0, rank + 0.25}, i, char('a' + i % 26)};
    MPI_Status status = fresh_status();
    int type_size = 0;
    MPI_Type_size(type, &type_size);
    MPI_Sendrecv(out.data(), n, type, 1 - rank, 1, in.data(), n + 3, type, 1 - rank, 1,
                 MPI_COMM_WORLD, &status);
    say("size %d: %s", type_size, in_words(status, type).c_str());
    for (int i = 0; i < n; ++i) {
        expect(in[i].position[1] == -i * 2.0 && in[i].position[2] == 1 - rank + 0.25 &&
                   in[i].id == i && in[i].kind == char('a' + i % 26),
               "particle %d", i);
        for (std::size_t b = offsetof(Particle, kind) + 1; b < sizeof(Particle); ++b) {
            expect(reinterpret_cast<unsigned char *>(&in[i])[b] == 0x77, "padding of particle %d",
                   i);
        }
    }
    for (std::size_t b = 0; b < 3 * sizeof(Particle); ++b)
        expect(reinterpret_cast<unsigned char *>(&in[n])[b] == 0x77, "beyond the last particle");
    MPI_Type_free(&type);
}

static void absolute_addresses(int n) {
    double a = rank + 0.5, a_in = -1;
    std::vector<int> b(n, rank), b_in(n, -1);
    MPI_Aint out[2], in[2];
    const int lengths[] = {1, n};
    MPI_Datatype parts[] = {MPI_DOUBLE, MPI_INT}, out_type, in_type;
    MPI_Get_address(&a, &out[0]);
    MPI_Get_address(b.data(), &out[1]);
    MPI_Get_address(&a_in, &in[0]);
    MPI_Get_address(b_in.data(), &in[1]);
    MPI_Type_create_struct(2, lengths, out, parts, &out_type);
    MPI_Type_create_struct(2, lengths, in, parts, &in_type);
    MPI_Type_commit(&out_type);
    MPI_Type_commit(&in_type);
    for (int i = 0; i < 3; ++i) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        a_in = -1;
        if (i == 0) {
            MPI_Sendrecv(MPI_BOTTOM, 1, out_type, 1 - rank, 1, MPI_BOTTOM, 1, in_type, 1 - rank, 1,
                         MPI_COMM_WORLD, &statuses[0]);
        } else {
            MPI_Irecv(MPI_BOTTOM, 1, in_type, 1 - rank, 1, MPI_COMM_WORLD, &requests[0]);
            if (i == 1) MPI_Barrier(MPI_COMM_WORLD);
            MPI_Isend(MPI_BOTTOM, 1, out_type, 1 - rank, 1, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, statuses);
        }
        say("bottom: %d", count_of(statuses[0], in_type));
        expect(a_in == 1 - rank + 0.5 && b_in[0] == 1 - rank && b_in[n - 1] == 1 - rank,
               "absolute: %g %d", a_in, b_in[0]);
    }
    MPI_Type_free(&out_type);
    MPI_Type_free(&in_type);
}

static void packed(int n) {
    MPI_Datatype type = particle_type();
    std::vector<Particle> out(n), in(n);
    for (int i = 0; i < n; ++i) out[i] = {{1.0 * i, 2.0 * i, 3.0 * i}, i, 'p'};
    int room = 0, position = 0, header = n;
    MPI_Pack_size(n, type, MPI_COMM_WORLD, &room);
    std::vector<char> buffer(room + 8), received(room + 8);
    MPI_Pack(&header, 1, MPI_INT, buffer.data(), int(buffer.size()), &position, MPI_COMM_WORLD);
    MPI_Pack(out.data(), n, type, buffer.data(), int(buffer.size()), &position, MPI_COMM_WORLD);
    MPI_Status status = fresh_status();
    MPI_Sendrecv(buffer.data(), position, MPI_PACKED, 1 - rank, 1, received.data(),
                 int(received.size()), MPI_PACKED, 1 - rank, 1, MPI_COMM_WORLD, &status);
    say("packed: %s", in_words(status, MPI_PACKED).c_str());
    position = 0;
    MPI_Unpack(received.data(), int(received.size()), &position, &header, 1, MPI_INT,
               MPI_COMM_WORLD);
    MPI_Unpack(received.data(), int(received.size()), &position, in.data(), n, type,
               MPI_COMM_WORLD);
    expect(header == n && in[n - 1].id == n - 1 && in[n - 1].position[2] == 3.0 * (n - 1),
           "packed data");
    // Packed by hand on one side, a typed receive on the other.
    std::memset(static_cast<void *>(in.data()), 0, n * sizeof(Particle));
    position = 0;
    MPI_Pack(out.data(), n, type, buffer.data(), int(buffer.size()), &position, MPI_COMM_WORLD);
    MPI_Sendrecv(buffer.data(), position, MPI_PACKED, 1 - rank, 2, in.data(), n, type, 1 - rank, 2,
                 MPI_COMM_WORLD, &status);
    say("packed to typed: %s", in_words(status, type).c_str());
    expect(in[n - 1].id == n - 1 && in[n - 1].kind == 'p', "packed to typed data");
    // And the other way.
    MPI_Sendrecv(out.data(), n, type, 1 - rank, 3, received.data(), int(received.size()),
                 MPI_PACKED, 1 - rank, 3, MPI_COMM_WORLD, &status);
    position = 0;
    MPI_Unpack(received.data(), int(received.size()), &position, in.data(), n, type,
               MPI_COMM_WORLD);
    expect(in[0].kind == 'p' && in[n - 1].position[1] == 2.0 * (n - 1), "typed to packed data");
    MPI_Type_free(&type);
}

// Types are freed right after the call that uses them; new ones take their place.
static void freed_in_use(int n) {
    for (int late = 0; late < 2; ++late) {
        MPI_Datatype in_type = particle_type(), out_type = particle_type(), other;
        std::vector<Particle> out(n), in(n);
        for (int i = 0; i < n; ++i) out[i] = {{1.0 * i, 0, 0}, i, 'f'};
        MPI_Request requests[3];
        MPI_Recv_init(in.data(), n, in_type, 1 - rank, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Irecv(in.data(), n, in_type, 1 - rank, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Type_free(&in_type);
        if (late) MPI_Barrier(MPI_COMM_WORLD);
        MPI_Issend(out.data(), n, out_type, 1 - rank, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Type_free(&out_type);
        std::vector<MPI_Datatype> others;
        for (int i = 0; i < 50; ++i) {
            MPI_Type_vector(i + 2, 1, 3, MPI_CHAR, &other);
            MPI_Type_commit(&other);
            others.push_back(other);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        expect(in[n - 1].id == n - 1 && in[n - 1].kind == 'f' && in[n / 2].position[0] == n / 2,
               "freed in use");
        in[n - 1].id = -1;
        MPI_Start(&requests[2]);
        MPI_Datatype again = particle_type();
        MPI_Send(out.data(), n, again, 1 - rank, 1, MPI_COMM_WORLD);
        MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
        MPI_Request_free(&requests[2]);
        MPI_Type_free(&again);
        expect(in[n - 1].id == n - 1, "persistent with a freed type");
        for (auto &type : others) MPI_Type_free(&type);
    }
}

// 48 to 304 bytes an element, as real codes have them; the receive is far larger.
static void real_elements() {
    for (int bytes : {48, 72, 104, 152, 304}) {
        MPI_Datatype element, dup;
        MPI_Type_contiguous(bytes, MPI_BYTE, &element);
        MPI_Type_commit(&element);
        MPI_Type_dup(element, &dup);
        for (int n : {0, 1, 17, 270}) {
            auto out = made(n * bytes, rank + n);
            std::vector<unsigned char> in(3000000);
            MPI_Status status;
            MPI_Request request;
            MPI_Irecv(in.data(), 3000000 / bytes, element, 1 - rank, 5, MPI_COMM_WORLD, &request);
            MPI_Request send;
            MPI_Isend(out.data(), n, dup, 1 - rank, 5, MPI_COMM_WORLD, &send);
            MPI_Wait(&request, &status);
            MPI_Wait(&send, MPI_STATUS_IGNORE);
            expect(count_of(status, element) == n && same(in.data(), n * bytes, 1 - rank + n),
                   "%d of %d bytes", n, bytes);
        }
        MPI_Type_free(&element);
        MPI_Type_free(&dup);
    }
}

// One type over three objects that are far apart, replaced as one.
static void replaced_where_they_are() {
    static int at_rest[100];
    int on_stack[10];
    std::vector<int> on_heap(5000);
    const int lengths[] = {100, 10, 5000};
    int *places[] = {at_rest, on_stack, on_heap.data()};
    MPI_Aint addresses[3];
    for (int i = 0; i < 3; ++i) {
        MPI_Get_address(places[i], &addresses[i]);
        fill(places[i], lengths[i] * sizeof(int), rank * 3 + i);
    }
    MPI_Datatype type;
    MPI_Type_create_hindexed(3, lengths, addresses, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Status status = fresh_status();
    MPI_Sendrecv_replace(MPI_BOTTOM, 1, type, 1 - rank, 4, 1 - rank, 4, MPI_COMM_WORLD, &status);
    say("replaced where they are: %s", in_words(status, type).c_str());
    for (int i = 0; i < 3; ++i)
        expect(same(places[i], lengths[i] * sizeof(int), (1 - rank) * 3 + i), "part %d of three is not replaced", i);
    MPI_Type_free(&type);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int n : {1, 5, 500, 5000}) padding(n);
    for (int n : {2, 4000, 100000}) absolute_addresses(n);
    for (int n : {1, 130, 5000}) packed(n);
    for (int n : {10, 20000}) freed_in_use(10), freed_in_use(n);
    real_elements();
    replaced_where_they_are();
    return finish();
}
