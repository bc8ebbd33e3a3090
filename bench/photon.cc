// SPDX-License-Identifier: MIT
// photon: Monte Carlo photon transport over a decomposed box, the application
// benchmark. An ordinary MPI code: it knows nothing of what carries its messages.
//
// The box is cells^3 unit cells in blocks, one block a rank: periodic in x,
// reflecting in y, leaking in z. With two ranks the left and the right neighbour
// are one rank, told apart by the tag. Each time step emits photons in every cell
// and moves all of them for one step's path; a photon that leaves the block goes
// into the buffer of that face, which is sent when full or when the rank has run
// out of work. Receives stand posted, one a face, and every few particles all
// requests are tested, the Iallreduce that looks for the end of the step among
// them. At the end of a step the receives are cancelled and waited for.
//
// Energy and tallies are integers and every photon carries its own random stream,
// so the result does not depend on the order of arrival, nor on the number of
// ranks: all lines but those that begin with "time:" are the same in every run.
//
// Share of the time inside MPI, by --time: Open MPI 4.1.4 over shared memory, two
// pinned ranks, five runs on a quiet machine of two cores:
//   --setting comm     42 to 45 % (to 57 % with the cores shared), main loop 1.9 s
//   --setting compute  1.2 to 3.1 %, main loop 3.9 s
#define OMPI_SKIP_MPICXX 1 // only the C interface is used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "photon_clock.hh"
#include "photon_options.hh"
#include "transport/random.hh"

namespace photon {
namespace {

constexpr int kAxes = 3;
constexpr int kFaces = 2 * kAxes; // face 2a looks down axis a, face 2a + 1 up it
constexpr int kTagFirst = 100;    // a message carries the tag of the face it left by
constexpr int kReceivePhotons = 640; // posted far larger than what mostly arrives
constexpr int kSendsInFlightMax = 8; // a face

constexpr std::int64_t kEnergyAtBirth = std::int64_t{1} << 32;
constexpr std::int64_t kEnergyCutoff = kEnergyAtBirth >> 7;
constexpr double kAlbedo = 0.9;

// Offsets are within the cell, so that the arithmetic of a flight is the same
// wherever the block borders lie.
struct Photon {
    std::array<double, kAxes> offset; // 0 to 1 in the cell
    std::array<double, kAxes> direction;
    double path_left; // to the end of the time step
    std::int64_t energy;
    std::uint64_t key; // names the random stream
    std::uint64_t drawn;
    std::array<std::int32_t, kAxes> cell; // in the whole box
    std::uint32_t events;
};
static_assert(sizeof(Photon) == 96);

using transport::mix;
using transport::unit;

std::uint64_t draw_bits(Photon& p)
{
    return mix(p.key + ++p.drawn * 0x9e3779b97f4a7c15U);
}

void draw_direction(Photon& p)
{
    const double z = 2 * unit(draw_bits(p)) - 1;
    const double r = std::sqrt(std::max(0.0, 1 - z * z));
    const double phi = 6.283185307179586 * unit(draw_bits(p));
    p.direction = {r * std::cos(phi), r * std::sin(phi), z};
}

// One rank's block: [low, high) in cells on each axis, and who is behind its faces.
struct Block {
    int cells = 0;
    std::array<int, kAxes> ranks{}, low{}, high{};
    std::array<int, kFaces> neighbour{}; // MPI_PROC_NULL: no message leaves by it

    Block(int cells_on_edge, int rank, int size) : cells(cells_on_edge)
    {
        MPI_Dims_create(size, kAxes, ranks.data());
        std::array<int, kAxes> at = {rank / (ranks[1] * ranks[2]),
                                     rank / ranks[2] % ranks[1], rank % ranks[2]};
        for (std::size_t a = 0; a < kAxes; ++a) {
            if (cells < ranks[a]) {
                stop("fewer cells on an edge than ranks");
            }
            low[a] = cells * at[a] / ranks[a];
            high[a] = cells * (at[a] + 1) / ranks[a];
            for (const int side : {0, 1}) {
                auto there = at;
                there[a] += side == 0 ? -1 : 1;
                const bool outside = there[a] < 0 || there[a] == ranks[a];
                there[a] = (there[a] + ranks[a]) % ranks[a];
                const bool none = ranks[a] == 1 || (outside && a != 0);
                neighbour[2 * a + static_cast<std::size_t>(side)] =
                    none ? MPI_PROC_NULL
                         : (there[0] * ranks[1] + there[1]) * ranks[2] + there[2];
            }
        }
    }

    std::size_t cells_here() const
    {
        return static_cast<std::size_t>(high[0] - low[0]) *
               static_cast<std::size_t>(high[1] - low[1]) *
               static_cast<std::size_t>(high[2] - low[2]);
    }
    std::size_t index(const std::array<std::int32_t, kAxes>& c) const
    {
        return (static_cast<std::size_t>(c[0] - low[0]) *
                    static_cast<std::size_t>(high[1] - low[1]) +
                static_cast<std::size_t>(c[1] - low[1])) *
                   static_cast<std::size_t>(high[2] - low[2]) +
               static_cast<std::size_t>(c[2] - low[2]);
    }
    std::uint64_t global_index(const std::array<std::int32_t, kAxes>& c) const
    {
        const auto n = static_cast<std::uint64_t>(cells);
        return (static_cast<std::uint64_t>(c[0]) * n + static_cast<std::uint64_t>(c[1])) * n +
               static_cast<std::uint64_t>(c[2]);
    }
    template <class Visit>
    void for_each_cell(Visit visit) const
    {
        for (std::int32_t x = low[0]; x < high[0]; ++x) {
            for (std::int32_t y = low[1]; y < high[1]; ++y) {
                for (std::int32_t z = low[2]; z < high[2]; ++z) {
                    visit(std::array<std::int32_t, kAxes>{x, y, z});
                }
            }
        }
    }
};

// Buffers and requests of all faces. A photon put into `send` is counted as sent
// once it is handed to MPI_Isend, as received once it is in the list of work.
class Exchange {
public:
    Exchange(const Block& block, const Options& options)
        : photons_a_message_(static_cast<std::size_t>(options.buffer)),
          photons_a_receive_(std::max<std::size_t>(photons_a_message_, kReceivePhotons)),
          type_(MPI_BYTE), items_a_photon_(static_cast<int>(sizeof(Photon)))
    {
        if (options.derived) {
            MPI_Type_contiguous(static_cast<int>(sizeof(Photon)), MPI_BYTE, &type_);
            MPI_Type_commit(&type_);
            items_a_photon_ = 1;
        }
        for (int f = 0; f < kFaces; ++f) {
            const int peer = block.neighbour[static_cast<std::size_t>(f)];
            if (peer != MPI_PROC_NULL) {
                face_slot_[static_cast<std::size_t>(f)] = faces_.size();
                faces_.push_back({.peer = peer,
                                  .tag_out = kTagFirst + f,
                                  .tag_in = kTagFirst + (f ^ 1),
                                  .filling = {},
                                  .sends = {},
                                  .receive = MPI_REQUEST_NULL,
                                  .arrived = std::vector<Photon>(photons_a_receive_)});
                faces_.back().filling.reserve(photons_a_message_);
            }
        }
    }

    void close()
    {
        if (type_ != MPI_BYTE) {
            MPI_Type_free(&type_);
        }
    }

    void post_receives()
    {
        for (Face& face : faces_) {
            post(face);
        }
    }

    // Every photon of the step has been counted in, so nothing can match these.
    void cancel_receives()
    {
        for (Face& face : faces_) {
            MPI_Status status;
            int cancelled = 0;
            in_mpi([&] {
                MPI_Cancel(&face.receive);
                MPI_Wait(&face.receive, &status);
                MPI_Test_cancelled(&status, &cancelled);
            });
            if (cancelled == 0) {
                stop("a message arrived after the end of the step");
            }
        }
    }

    // May poll, and so add to the work, when all buffers of the face are in flight.
    void send(int f, const Photon& p, std::vector<Photon>& work)
    {
        Face& face = faces_[face_slot_[static_cast<std::size_t>(f)]];
        face.filling.push_back(p);
        if (face.filling.size() == photons_a_message_) {
            flush(face, work);
        }
    }

    void flush_all(std::vector<Photon>& work)
    {
        for (Face& face : faces_) {
            if (!face.filling.empty()) {
                flush(face, work);
            }
        }
    }

    void poll(std::vector<Photon>& work)
    {
        for (Face& face : faces_) {
            test_receive(face, work);
            for (const auto& send : face.sends) {
                if (send->request != MPI_REQUEST_NULL) {
                    in_mpi([&] {
                        int done = 0;
                        MPI_Test(&send->request, &done, MPI_STATUS_IGNORE);
                    });
                }
            }
        }
    }

    void wait_for_sends()
    {
        for (Face& face : faces_) {
            for (const auto& send : face.sends) {
                in_mpi([&] { MPI_Wait(&send->request, MPI_STATUS_IGNORE); });
            }
        }
    }

    std::int64_t sent() const { return sent_; }
    std::int64_t received() const { return received_; }
    std::int64_t messages() const { return messages_; }

private:
    struct Send {
        MPI_Request request = MPI_REQUEST_NULL;
        std::vector<Photon> photons;
    };
    struct Face {
        int peer;
        int tag_out, tag_in;
        std::vector<Photon> filling;
        std::vector<std::unique_ptr<Send>> sends;
        MPI_Request receive;
        std::vector<Photon> arrived;
    };

    void post(Face& face)
    {
        in_mpi([&] {
            MPI_Irecv(face.arrived.data(),
                      static_cast<int>(photons_a_receive_) * items_a_photon_, type_, face.peer,
                      face.tag_in, MPI_COMM_WORLD, &face.receive);
        });
    }

    void test_receive(Face& face, std::vector<Photon>& work)
    {
        int done = 0;
        MPI_Status status;
        in_mpi([&] { MPI_Test(&face.receive, &done, &status); });
        if (done == 0) {
            return;
        }
        int items = 0;
        MPI_Get_count(&status, type_, &items);
        if (items <= 0 || items % items_a_photon_ != 0) {
            stop("a message that is not a number of photons");
        }
        const int photons = items / items_a_photon_;
        work.insert(work.end(), face.arrived.begin(), face.arrived.begin() + photons);
        received_ += photons;
        post(face);
    }

    Send& free_send(Face& face, std::vector<Photon>& work)
    {
        for (;;) {
            for (const auto& send : face.sends) {
                if (send->request == MPI_REQUEST_NULL) {
                    return *send;
                }
            }
            if (face.sends.size() < kSendsInFlightMax) {
                face.sends.push_back(std::make_unique<Send>());
                face.sends.back()->photons.reserve(photons_a_message_);
            } else {
                poll(work);
            }
        }
    }

    void flush(Face& face, std::vector<Photon>& work)
    {
        Send& send = free_send(face, work);
        send.photons.swap(face.filling);
        face.filling.clear();
        sent_ += static_cast<std::int64_t>(send.photons.size());
        ++messages_;
        in_mpi([&] {
            MPI_Isend(send.photons.data(),
                      static_cast<int>(send.photons.size()) * items_a_photon_, type_,
                      face.peer, face.tag_out, MPI_COMM_WORLD, &send.request);
        });
    }

    std::size_t photons_a_message_, photons_a_receive_;
    MPI_Datatype type_;
    int items_a_photon_;
    std::vector<Face> faces_;
    std::array<std::size_t, kFaces> face_slot_{};
    std::int64_t sent_ = 0, received_ = 0, messages_ = 0;
};

// Looks for the end of a step. A rank that has run out of work joins the next round
// of an Iallreduce over (created, finished, sent, received). The step is over when
// two rounds in a row give the same counts with nothing alive and nothing under way:
// the second round began after all ranks had given their first counts, so equal
// counts mean that nothing moved between the rounds. All ranks see the same sums and
// stop in the same round, so no reduction is left open.
class Termination {
public:
    void start_step()
    {
        over_ = false;
        previous_.fill(-1);
    }

    bool running() const { return request_ != MPI_REQUEST_NULL; }
    bool over() const { return over_; }

    void begin_round(std::int64_t created, std::int64_t finished, const Exchange& exchange)
    {
        mine_ = {created, finished, exchange.sent(), exchange.received()};
        in_mpi([&] {
            MPI_Iallreduce(mine_.data(), sum_.data(), static_cast<int>(mine_.size()),
                           MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &request_);
        });
    }

    void test()
    {
        const bool was_running = running(); // a null request is done as well
        int done = 0;
        in_mpi([&] { MPI_Test(&request_, &done, MPI_STATUS_IGNORE); });
        if (was_running && done != 0) {
            over_ = sum_ == previous_ && sum_[0] == sum_[1] && sum_[2] == sum_[3];
            previous_ = sum_;
        }
    }

private:
    using Counts = std::array<std::int64_t, 4>;
    Counts mine_{}, sum_{}, previous_{};
    MPI_Request request_ = MPI_REQUEST_NULL;
    bool over_ = false;
};

class Transport {
public:
    Transport(const Options& options, const Block& block)
        : options_(options), block_(block), exchange_(block, options),
          deposited_(block.cells_here(), 0), opacity_(block.cells_here())
    {
        block_.for_each_cell([&](const auto& cell) {
            const auto bits = mix(mix(options_.seed) + block_.global_index(cell));
            opacity_[block_.index(cell)] = options_.opacity * (0.5 + unit(bits));
        });
    }

    void run()
    {
        for (int step = 0; step < options_.steps; ++step) {
            run_step(step);
        }
        exchange_.close();
    }

    struct Totals {
        std::int64_t emitted, absorbed, leaked, census, emitted_energy, deposited_energy,
            leaked_energy, census_energy, events, crossings;
        std::uint64_t tally_sum, history_sum; // sums of hashes, modulo 2^64
    };

    Totals totals() const
    {
        Totals t = totals_;
        block_.for_each_cell([&](const auto& cell) {
            const std::int64_t energy = deposited_[block_.index(cell)];
            t.deposited_energy += energy;
            t.tally_sum += mix(mix(block_.global_index(cell) + 1) +
                               static_cast<std::uint64_t>(energy));
        });
        for (const Photon& p : census_) {
            t.census_energy += p.energy;
            t.history_sum += mix(p.key + p.drawn + p.events);
        }
        t.census = static_cast<std::int64_t>(census_.size());
        return t;
    }

    std::int64_t messages() const { return exchange_.messages(); }
    std::int64_t photons_sent() const { return exchange_.sent(); }

private:
    void run_step(int step)
    {
        work_.swap(census_);
        census_.clear();
        for (Photon& p : work_) {
            p.path_left = path_a_step();
        }
        emit(step);
        created_ += static_cast<std::int64_t>(work_.size());
        termination_.start_step();
        exchange_.post_receives();
        while (!termination_.over()) {
            for (int n = 0; n < options_.poll && !work_.empty(); ++n) {
                Photon p = work_.back();
                work_.pop_back();
                track(p);
            }
            if (work_.empty()) {
                exchange_.flush_all(work_);
            }
            exchange_.poll(work_);
            if (work_.empty() && !termination_.running()) {
                termination_.begin_round(created_, finished_, exchange_);
            }
            termination_.test();
        }
        exchange_.wait_for_sends();
        exchange_.cancel_receives();
        // No photon of the next step may meet a receive of this one.
        in_mpi([] { MPI_Barrier(MPI_COMM_WORLD); });
    }

    double path_a_step() const { return options_.cells; }

    // The same photons in a cell whoever owns it: the key is made of step, cell and
    // number.
    void emit(int step)
    {
        const auto cells = static_cast<std::int64_t>(options_.cells) * options_.cells *
                           options_.cells;
        const auto share = [](std::int64_t of, std::int64_t part, std::int64_t parts) {
            return of * (part + 1) / parts - of * part / parts;
        };
        const std::int64_t this_step = share(options_.particles, step, options_.steps);
        block_.for_each_cell([&](const auto& cell) {
            const auto index = static_cast<std::int64_t>(block_.global_index(cell));
            const std::int64_t slot = index + cells * step;
            const std::int64_t count = share(this_step, index, cells);
            for (std::int64_t n = 0; n < count; ++n) {
                Photon p{};
                p.key = mix(mix(mix(options_.seed + 1) + static_cast<std::uint64_t>(slot)) +
                            static_cast<std::uint64_t>(n));
                p.cell = cell;
                p.energy = kEnergyAtBirth;
                p.path_left = path_a_step();
                for (double& offset : p.offset) {
                    offset = unit(draw_bits(p));
                }
                draw_direction(p);
                work_.push_back(p);
                ++totals_.emitted;
                totals_.emitted_energy += p.energy;
            }
        });
    }

    // Moves one photon until it ends, reaches the end of the step or leaves the block.
    void track(Photon& p)
    {
        for (;;) {
            const std::size_t here = block_.index(p.cell);
            const double scattering = opacity_[here] * kAlbedo;
            const double absorption = opacity_[here] - scattering;
            ++totals_.events;
            ++p.events;
            if (options_.work > 0) {
                extra_work(p);
            }

            const auto [axis, to_face] = nearest_face(p);
            const double to_collision = scattering > 0
                                            ? -std::log(unit(draw_bits(p))) / scattering
                                            : std::numeric_limits<double>::infinity();
            const double path = std::min({to_face, to_collision, p.path_left});

            const auto lost = static_cast<std::int64_t>(
                static_cast<double>(p.energy) * -std::expm1(-absorption * path));
            p.energy -= lost;
            deposited_[here] += lost;
            for (std::size_t a = 0; a < kAxes; ++a) {
                p.offset[a] = std::clamp(p.offset[a] + p.direction[a] * path, 0.0, 1.0);
            }
            p.path_left -= path;

            if (p.energy < kEnergyCutoff) {
                deposited_[here] += p.energy;
                ++totals_.absorbed;
                finish(p);
                return;
            }
            if (p.path_left <= 0) {
                census_.push_back(p);
                ++finished_;
                return;
            }
            if (path == to_collision) {
                draw_direction(p);
            } else if (!cross(p, axis)) {
                return;
            }
        }
    }

    static std::pair<std::size_t, double> nearest_face(const Photon& p)
    {
        std::size_t axis = 0;
        double nearest = std::numeric_limits<double>::infinity();
        for (std::size_t a = 0; a < kAxes; ++a) {
            const double d = p.direction[a];
            if (d != 0) {
                const double path = ((d > 0 ? 1.0 : 0.0) - p.offset[a]) / d;
                if (path < nearest) {
                    nearest = path;
                    axis = a;
                }
            }
        }
        return {axis, nearest};
    }

    // False: the photon is no longer here (leaked, or on its way to a neighbour).
    bool cross(Photon& p, std::size_t axis)
    {
        const bool up = p.direction[axis] > 0;
        std::int32_t next = p.cell[axis] + (up ? 1 : -1);
        if (next < 0 || next == block_.cells) {
            if (axis == 1) {
                p.direction[axis] = -p.direction[axis];
                return true;
            }
            if (axis == 2) {
                totals_.leaked_energy += p.energy;
                ++totals_.leaked;
                finish(p);
                return false;
            }
            next = up ? 0 : block_.cells - 1;
        }
        p.cell[axis] = next;
        p.offset[axis] = up ? 0.0 : 1.0;
        ++totals_.crossings;
        if (next >= block_.low[axis] && next < block_.high[axis]) {
            return true;
        }
        exchange_.send(2 * static_cast<int>(axis) + (up ? 1 : 0), p, work_);
        return false;
    }

    void finish(const Photon& p)
    {
        totals_.history_sum += mix(p.key + p.drawn + p.events);
        ++finished_;
    }

    // Stands for the evaluation of opacities over many groups.
    void extra_work(Photon& p)
    {
        double sum = 0;
        const double x = static_cast<double>(p.energy) / static_cast<double>(kEnergyAtBirth);
        for (int group = 1; group <= options_.work; ++group) {
            sum += std::exp(-x * group) / group;
        }
        p.drawn += static_cast<std::uint64_t>(sum * 16) & 1U;
    }

    const Options& options_;
    const Block& block_;
    Exchange exchange_;
    Termination termination_;
    std::vector<Photon> work_, census_;
    std::vector<std::int64_t> deposited_;
    std::vector<double> opacity_;
    std::int64_t created_ = 0, finished_ = 0;
    Totals totals_{};
};

void report(const Options& o, const Transport::Totals& t)
{
    std::printf("photon: particles %" PRId64 " steps %d cells %d opacity %.17g seed %" PRIu64
                " work %d\n",
                o.particles, o.steps, o.cells, o.opacity, o.seed, o.work);
    std::printf("emitted %" PRId64 " energy %" PRId64 "\n", t.emitted, t.emitted_energy);
    std::printf("absorbed %" PRId64 " energy %" PRId64 "\n", t.absorbed, t.deposited_energy);
    std::printf("leaked %" PRId64 " energy %" PRId64 "\n", t.leaked, t.leaked_energy);
    std::printf("census %" PRId64 " energy %" PRId64 "\n", t.census, t.census_energy);
    std::printf("events %" PRId64 " crossings %" PRId64 "\n", t.events, t.crossings);
    std::printf("checksum tally %016" PRIx64 " history %016" PRIx64 "\n", t.tally_sum,
                t.history_sum);
    const bool balanced = t.emitted == t.absorbed + t.leaked + t.census &&
                          t.emitted_energy ==
                              t.deposited_energy + t.leaked_energy + t.census_energy;
    std::printf("balance %s\n", balanced ? "exact" : "BROKEN");
}

int run(const Options& options)
{
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const Block block(options.cells, rank, size);
    Transport transport(options, block);
    if (options.time) {
        in_mpi.enable();
    }

    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = std::chrono::steady_clock::now();
    in_mpi.start();
    transport.run();
    in_mpi.stop();
    const std::chrono::duration<double> mine = std::chrono::steady_clock::now() - begin;

    Transport::Totals here = transport.totals();
    Transport::Totals all{};
    static_assert(sizeof(here) == 12 * sizeof(std::int64_t));
    MPI_Reduce(&here, &all, 10, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&here.tally_sum, &all.tally_sum, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    const double seconds_here = mine.count();
    double seconds = 0;
    MPI_Reduce(&seconds_here, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    const std::array<std::int64_t, 2> sent_here = {transport.messages(),
                                                   transport.photons_sent()};
    std::array<std::int64_t, 2> sent{};
    MPI_Reduce(sent_here.data(), sent.data(), 2, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    const double share_here = options.time ? in_mpi.share() : 0;
    double share = 0;
    MPI_Reduce(&share_here, &share, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);

    if (rank == 0) {
        report(options, all);
        if (options.time) {
            std::printf("time: share in MPI %.1f %%\n", 100 * share / size);
        }
        const auto bytes = static_cast<double>(sent[1]) * static_cast<double>(sizeof(Photon));
        std::printf("time: %.4f s, %" PRId64 " messages of %.0f bytes on average\n", seconds,
                    sent[0], sent[0] > 0 ? bytes / static_cast<double>(sent[0]) : 0.0);
    }
    return 0;
}

} // namespace
} // namespace photon

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    const int status = photon::run(photon::parse(argc, argv));
    MPI_Finalize();
    return status;
}
