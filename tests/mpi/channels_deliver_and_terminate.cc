// SPDX-License-Identifier: MIT
// Channels of storm.h: every record arrives once, from the rank that pushed it, in its
// order, in the step it was pushed in; steps end on all ranks together, even when a rank
// pushes far more than its peers take in; wrong arguments are refused.
// run: ranks=1,2,3,4 timeout=60 long
#include "check.h"

#include "storm.h"
using namespace check;

struct Record {
    std::int32_t from, to, step, number;
    std::uint64_t lives;
    char rest[72]; // as long as a particle
};

struct Walk {
    storm_channel *channel = nullptr;
    Random random{0};
    std::vector<int> pushed, seen; // records to and from each rank
    std::vector<Record> work;
    std::int64_t born = 0, ended = 0, moved = 0;
    int step = 0;

    explicit Walk(int batch) : random(std::uint64_t(rank) + 7), pushed(size, 0), seen(size, 0) {
        const int rc = storm_channel_open(MPI_COMM_WORLD, sizeof(Record), batch, &channel);
        expect(rc == MPI_SUCCESS && channel != nullptr, "open: %s", error_class(rc).c_str());
    }

    void push(Record r) {
        r.from = rank;
        r.to = random.below(size);
        r.step = step;
        r.number = pushed[r.to]++;
        fill(r.rest, sizeof r.rest, std::uint32_t(r.number));
        const int rc = storm_channel_push(channel, r.to, &r);
        expect(rc == MPI_SUCCESS, "push: %s", error_class(rc).c_str());
        ++moved;
    }

    void poll() {
        for (;;) {
            const void *records = nullptr;
            int count = -1, source = -1;
            const int rc = storm_channel_poll(channel, &records, &count, &source);
            expect(rc == MPI_SUCCESS && count >= 0, "poll: %s, %d", error_class(rc).c_str(), count);
            if (count <= 0) return;
            const auto *r = static_cast<const Record *>(records);
            for (int i = 0; i < count; ++i) {
                expect(r[i].to == rank && r[i].from == source, "to %d from %d, source %d", r[i].to, r[i].from, source);
                expect(r[i].step == step, "a record of step %d in step %d", r[i].step, step);
                expect(r[i].number == seen[source]++, "number %d of rank %d is not the next", r[i].number, source);
                expect(same(r[i].rest, sizeof r[i].rest, std::uint32_t(r[i].number)), "bytes of %d", r[i].number);
                work.push_back(r[i]);
            }
        }
    }

    // Each record goes from rank to rank until its lives are used up.
    void run_step(int records, int lives) {
        for (int i = 0; i < records; ++i) push({0, 0, 0, 0, std::uint64_t(random.below(lives)), {}});
        born += records;
        int over = 0;
        while (!over) {
            for (int n = 0; n < 3 && !work.empty(); ++n) {
                Record r = work.back();
                work.pop_back();
                if (r.lives-- == 0) ++ended;
                else
                    push(r);
            }
            // Others go on to the next step meanwhile, or count while something is unread.
            if (random.once_in(50)) usleep(300);
            if (!random.once_in(3)) poll();
            const int rc = storm_channel_terminate(channel, work.empty(), &over);
            expect(rc == MPI_SUCCESS, "terminate: %s", error_class(rc).c_str());
        }
        expect(work.empty(), "the step ended with %zu records left", work.size());
        ++step;
    }

    void balance() {
        std::int64_t mine[2] = {born, ended}, all[2];
        MPI_Allreduce(mine, all, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        expect(all[0] == all[1], "%ld born, %ld ended", long(all[0]), long(all[1]));
    }
};

static void refusals(storm_channel *channel) {
    storm_channel *none = channel;
    expect(storm_channel_open(MPI_COMM_WORLD, 0, 1, &none) != MPI_SUCCESS && none == nullptr, "records of no bytes");
    expect(storm_channel_open(MPI_COMM_WORLD, 8, -1, &none) != MPI_SUCCESS && none == nullptr, "a batch of -1");
    expect(storm_channel_open(MPI_COMM_WORLD, 1u << 30, 64, &none) != MPI_SUCCESS, "messages beyond 2 GiB");
    expect(storm_channel_open(MPI_COMM_WORLD, 8, 1, nullptr) != MPI_SUCCESS, "nowhere to put it");
    char record[sizeof(Record)] = {};
    expect(storm_channel_push(channel, -1, record) != MPI_SUCCESS, "rank -1");
    expect(storm_channel_push(channel, size, record) != MPI_SUCCESS, "a rank beyond the last");
}

int main(int argc, char **argv) {
    begin(argc, argv);
    const int more = given("long") ? 10 : 1;
    for (const int batch : {0, 1, 7, 1000}) {
        Walk walk(batch);
        refusals(walk.channel);
        for (int step = 0; step < 20; ++step) walk.run_step(20 * more, 8);
        walk.run_step(rank == 0 ? 20000 * more : 0, 1); // one rank floods the others
        walk.run_step(0, 1);
        walk.balance();
        say("batch %d: %ld born", batch, long(walk.born));
        // not while something is under way
        const Record record{rank, rank, walk.step, walk.pushed[rank], 0, {}};
        storm_channel_push(walk.channel, rank, &record);
        if (batch == 7) expect(storm_channel_close(&walk.channel) != MPI_SUCCESS, "closed with a record begun");
        walk.pushed[rank] = walk.seen[rank] = 0;
        int over = 0;
        while (!over) {
            const void *records = nullptr;
            int count = 0;
            storm_channel_poll(walk.channel, &records, &count, nullptr);
            storm_channel_terminate(walk.channel, 1, &over);
        }
        expect(storm_channel_close(&walk.channel) == MPI_SUCCESS && walk.channel == nullptr, "close");
    }
    return finish();
}
