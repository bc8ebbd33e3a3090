// SPDX-License-Identifier: MIT
// The lifetime of communicators and datatypes.
#include "process.hh"

namespace storm::interpose {
namespace {

struct Identity {
    std::int64_t rank = -1;    // world rank of member 0
    std::int64_t counter = -1; // of that rank
    std::int64_t nested = 0;   // some member made it inside the real MPI
};
static_assert(sizeof(Identity) == 3 * sizeof(std::int64_t));

// What this member contributes; the maximum over the members is the identity.
Identity contribution(Rank& rank, MPI_Comm members, bool nested)
{
    Identity mine;
    int me = 0;
    process.real.Comm_rank(members, &me);
    if (me == 0) {
        const std::uint64_t next = rank.next_identity();
        mine.rank = static_cast<std::int64_t>(next >> 32);
        mine.counter = static_cast<std::int64_t>(next & 0xffffffff);
    }
    mine.nested = nested ? 1 : 0;
    return mine;
}

// A group that reaches outside of the parent is an error that Open MPI does not see:
// nobody else calls, so nothing may be agreed on.
bool within(Rank& rank, MPI_Comm made, MPI_Comm parent)
{
    int inter = 0;
    MPI_Group group;
    if (parent == process.real.comm_world || process.real.Comm_test_inter(parent, &inter) != MPI_SUCCESS ||
        inter != 0)
        return true; // the check against the world says it all
    process.real.Comm_group(parent, &group);
    const bool all = rank.all_in(made, group);
    process.real.Group_free(&group);
    return all;
}

} // namespace

// A communicator is routed if all its members belong to this MPI_COMM_WORLD, which all
// of them see alike; then they agree on an identity, and on whether the program made it.
void adopt(MPI_Comm parent, MPI_Comm made, bool nested)
{
    Rank* rank = routed();
    if (rank == nullptr || made == process.real.comm_null || !rank->all_in_world(made) ||
        !within(*rank, made, parent))
        return;
    Identity identity = contribution(*rank, made, nested);
    process.real.Allreduce(MPI_IN_PLACE, &identity, 3, process.real.int64, process.real.op_max, made);
    if (identity.nested == 0)
        rank->adopt(made, static_cast<std::uint64_t>(identity.rank) << 32 |
                              static_cast<std::uint64_t>(identity.counter));
}

// The members agree once the real duplication has ended, on the new communicator: on
// the parent the two could meet in another order at another member.
int Comm_idup(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request)
{
    Rank* rank = routed();
    if (rank == nullptr || newcomm == nullptr || request == nullptr || comm == nullptr ||
        comm == process.real.comm_null || !rank->all_in_world(comm))
        return process.real.Comm_idup(comm, newcomm, request);
    const bool nested = Entered::inside();
    const Entered entered;
    MPI_Request made = process.real.request_null;
    const int rc = process.real.Comm_idup(comm, newcomm, &made);
    if (rc == MPI_SUCCESS) {
        const Identity mine = contribution(*rank, comm, nested);
        *request = rank->duplicate(made, newcomm, {mine.rank, mine.counter, mine.nested});
    }
    return rc;
}

namespace {
// The real MPI runs the program's attribute callbacks first, which may still use it.
template <class Free>
int end(MPI_Comm* comm, Free free)
{
    Rank* rank = routed();
    if (rank == nullptr || comm == nullptr)
        return free(comm);
    const MPI_Comm handle = *comm;
    Comm* ours = handle == nullptr ? nullptr : rank->find(handle);
    const Entered entered;
    const int rc = free(comm);
    if (rc == MPI_SUCCESS && ours != nullptr)
        rank->free_comm(*ours, handle);
    return rc;
}
} // namespace

int Comm_free(MPI_Comm* comm)
{
    return end(comm, process.real.Comm_free);
}

int Comm_disconnect(MPI_Comm* comm)
{
    return end(comm, process.real.Comm_disconnect);
}

int Comm_set_name(MPI_Comm comm, const char* name)
{
    const int rc = process.real.Comm_set_name(comm, name);
    Rank* rank = routed();
    Comm* ours = rc == MPI_SUCCESS && rank != nullptr ? rank->find(comm) : nullptr;
    if (ours != nullptr)
        rank->rename(*ours, name);
    return rc;
}

int Type_free(MPI_Datatype* type)
{
    if (Rank* rank = routed(); rank != nullptr && type != nullptr && *type != nullptr)
        rank->forget_type(*type);
    return process.real.Type_free(type);
}

} // namespace storm::interpose
