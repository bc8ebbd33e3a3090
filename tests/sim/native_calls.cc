// SPDX-License-Identifier: MIT
// The calls of the simulated real MPI.
#include "native_parts.hh"

namespace storm::sim {

struct NativeCalls {
    using Comm = Native::Comm;
    using Request = Native::Request;
    using Type = Native::Type;

    static Native& mpi() { return *Native::live; }
    static int me() { return mpi().world_.current(); }
    static bool fault(const char* call) { return mpi().fault(call); }
    static bool is_null(MPI_Request r) { return r == mpi().real_.request_null; }
    static bool is_done(MPI_Request r)
    {
        return is_null(r) || r == mpi().real_.request_done || as<Request>(r)->complete;
    }
    static Type& type_of(MPI_Datatype handle)
    {
        auto& type = *as<Type>(handle);
        if (type.freed)
            mpi().broken.emplace_back("a freed datatype was used");
        return type;
    }

    static int Abort(MPI_Comm, int)
    {
        mpi().world_.abort("rank " + std::to_string(me()) + " called MPI_Abort");
    }
    static void progress() { mpi().progress(me()); }

    static int Comm_rank(MPI_Comm comm, int* rank)
    {
        *rank = as<Comm>(comm)->rank_of(me());
        return MPI_SUCCESS;
    }
    static int Comm_size(MPI_Comm comm, int* size)
    {
        *size = as<Comm>(comm)->size();
        return MPI_SUCCESS;
    }
    static int Comm_test_inter(MPI_Comm, int* flag)
    {
        *flag = 0;
        return MPI_SUCCESS;
    }
    static int Comm_get_name(MPI_Comm, char* name, int* length)
    {
        *name = '\0';
        *length = 0;
        return MPI_SUCCESS;
    }
    static int Comm_get_attr(MPI_Comm, int key, void* value, int* found)
    {
        *found = key == MPI_TAG_UB ? 1 : 0;
        if (*found != 0)
            *static_cast<int**>(value) = &mpi().tag_max_;
        return MPI_SUCCESS;
    }
    static int Comm_group(MPI_Comm comm, MPI_Group* group)
    {
        *group = as<std::remove_pointer_t<MPI_Group>>(comm); // lives as long
        return MPI_SUCCESS;
    }
    static int Comm_call_errhandler(MPI_Comm, int error)
    {
        mpi().world_.abort("rank " + std::to_string(me()) + "'s error handler was called with class " +
                           std::to_string(error));
    }
    static int Group_size(MPI_Group group, int* size)
    {
        *size = as<Comm>(group)->size();
        return MPI_SUCCESS;
    }
    static int Group_free(MPI_Group* group)
    {
        *group = nullptr;
        return MPI_SUCCESS;
    }
    static int Group_translate_ranks(MPI_Group from, int n, const int* ranks, MPI_Group to, int* out)
    {
        for (int i = 0; i < n; ++i)
            out[i] = as<Comm>(to)->rank_of(as<Comm>(from)->world_rank(ranks[i], me()));
        return MPI_SUCCESS;
    }

    static int Type_size_x(MPI_Datatype type, MPI_Count* size)
    {
        *size = static_cast<MPI_Count>(type_of(type).size);
        return MPI_SUCCESS;
    }
    static int Type_get_envelope(MPI_Datatype type, int* ints, int* addresses, int* types, int* combiner)
    {
        *ints = *addresses = *types = 0;
        *combiner = type_of(type).predefined ? MPI_COMBINER_NAMED : MPI_COMBINER_STRUCT;
        return MPI_SUCCESS;
    }
    static int Type_get_extent(MPI_Datatype type, MPI_Aint* lb, MPI_Aint* extent)
    {
        *lb = 0;
        *extent = type_of(type).extent;
        return MPI_SUCCESS;
    }
    static int Type_get_true_extent(MPI_Datatype type, MPI_Aint* lb, MPI_Aint* extent)
    {
        const auto& blocks = type_of(type).blocks;
        *lb = *extent = 0;
        if (!blocks.empty()) {
            *lb = blocks.front().first;
            *extent = blocks.back().first + static_cast<MPI_Aint>(blocks.back().second) - *lb;
        }
        return MPI_SUCCESS;
    }
    static int Type_contiguous(int, MPI_Datatype old, MPI_Datatype* made) // the shim asks for one element
    {
        mpi().types_.push_back(std::make_unique<Type>(type_of(old)));
        *made = as<std::remove_pointer_t<MPI_Datatype>>(mpi().types_.back().get());
        return MPI_SUCCESS;
    }
    static int Type_commit(MPI_Datatype*) { return MPI_SUCCESS; }
    static int Type_free(MPI_Datatype* type)
    {
        type_of(*type).freed = true;
        *type = nullptr;
        return MPI_SUCCESS;
    }
    static int Pack(const void* in, int count, MPI_Datatype type, void* out, int size, int* position, MPI_Comm)
    {
        const std::uint64_t bytes = type_of(type).size * static_cast<std::uint64_t>(count);
        if (static_cast<std::uint64_t>(size - *position) < bytes)
            return MPI_ERR_TRUNCATE;
        type_of(type).pack(in, bytes, static_cast<std::byte*>(out) + *position);
        *position += static_cast<int>(bytes);
        return MPI_SUCCESS;
    }
    static int Unpack(const void* in, int size, int* position, void* out, int count, MPI_Datatype type, MPI_Comm)
    {
        const std::uint64_t bytes = type_of(type).size * static_cast<std::uint64_t>(count);
        if (static_cast<std::uint64_t>(size - *position) < bytes)
            return MPI_ERR_TRUNCATE;
        type_of(type).unpack(out, bytes, static_cast<const std::byte*>(in) + *position);
        *position += static_cast<int>(bytes);
        return MPI_SUCCESS;
    }

    static int Send(const void* buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
    {
        if (dest == MPI_PROC_NULL)
            return MPI_SUCCESS;
        MPI_Request request;
        const int rc = Isend(buffer, count, type, dest, tag, comm, &request);
        return rc != MPI_SUCCESS ? rc : Wait(&request, MPI_STATUS_IGNORE);
    }
    static int Isend(const void* buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                     MPI_Request* request)
    {
        if (fault("MPI_Isend"))
            return MPI_ERR_INTERN;
        mpi().send(buffer, count, type_of(type), dest, tag, *as<Comm>(comm), false, request);
        return MPI_SUCCESS;
    }
    static int Issend(const void* buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                      MPI_Request* request)
    {
        if (fault("MPI_Issend"))
            return MPI_ERR_INTERN;
        mpi().send(buffer, count, type_of(type), dest, tag, *as<Comm>(comm), true, request);
        return MPI_SUCCESS;
    }
    static int Irecv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                     MPI_Request* request)
    {
        if (fault("MPI_Irecv"))
            return MPI_ERR_INTERN;
        mpi().receive(buffer, count, type_of(type), source, tag, *as<Comm>(comm), request);
        return MPI_SUCCESS;
    }
    static int Recv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                    MPI_Status* status)
    {
        MPI_Request request;
        const int rc = Irecv(buffer, count, type, source, tag, comm, &request);
        return rc != MPI_SUCCESS ? rc : Wait(&request, status);
    }
    static int Ibarrier(MPI_Comm comm, MPI_Request* request)
    {
        if (fault("MPI_Ibarrier"))
            return MPI_ERR_INTERN;
        *request = mpi().enter(*as<Comm>(comm), nullptr, 0);
        return MPI_SUCCESS;
    }
    // The maximum of 64-bit integers in place.
    static int Iallreduce(const void*, void* values, int count, MPI_Datatype, MPI_Op, MPI_Comm comm,
                          MPI_Request* request)
    {
        if (fault("MPI_Iallreduce"))
            return MPI_ERR_INTERN;
        *request = mpi().enter(*as<Comm>(comm), static_cast<std::int64_t*>(values), count);
        return MPI_SUCCESS;
    }
    static int Cancel(MPI_Request* request)
    {
        auto* r = as<Request>(*request);
        auto& posted = mpi().side(r->owner).posted;
        const auto at = std::find(posted.begin(), posted.end(), r);
        if (at != posted.end()) {
            posted.erase(at);
            r->cancelled = r->complete = true;
        }
        return MPI_SUCCESS;
    }

    static int Test(MPI_Request* request, int* flag, MPI_Status* status)
    {
        mpi().progress(me());
        *flag = is_done(*request) ? 1 : 0;
        return *flag != 0 ? mpi().finish(request, status, false) : MPI_SUCCESS;
    }
    static int Wait(MPI_Request* request, MPI_Status* status)
    {
        mpi().wait_until([request] { return is_done(*request); });
        return mpi().finish(request, status, false);
    }
    static int Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses)
    {
        mpi().progress(me());
        *flag = std::all_of(requests, requests + count, is_done) ? 1 : 0;
        return *flag != 0 ? finish_all(count, requests, statuses) : MPI_SUCCESS;
    }
    static int Waitall(int count, MPI_Request* requests, MPI_Status* statuses)
    {
        mpi().wait_until([=] { return std::all_of(requests, requests + count, is_done); });
        return finish_all(count, requests, statuses);
    }
    static int finish_all(int count, MPI_Request* requests, MPI_Status* statuses)
    {
        int rc = MPI_SUCCESS;
        for (int i = 0; i < count; ++i)
            if (mpi().finish(requests + i, statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i, true) !=
                MPI_SUCCESS)
                rc = MPI_ERR_IN_STATUS;
        return rc;
    }
    static int Testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status)
    {
        mpi().progress(me());
        bool any = false;
        for (int i = 0; i < count; ++i) {
            any = any || !is_null(requests[i]);
            if (is_null(requests[i]) || !is_done(requests[i]))
                continue;
            *index = i;
            *flag = 1;
            return mpi().finish(requests + i, status, false);
        }
        *index = MPI_UNDEFINED;
        *flag = any ? 0 : 1;
        return MPI_SUCCESS;
    }
    static int Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status)
    {
        int flag = 0, rc = MPI_SUCCESS;
        mpi().wait_until([&] {
            rc = Testany(count, requests, index, &flag, status);
            return flag != 0;
        });
        return rc;
    }
    static int Testsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses)
    {
        mpi().progress(me());
        int rc = MPI_SUCCESS;
        bool any = false;
        *done = 0;
        for (int i = 0; i < count; ++i) {
            any = any || !is_null(requests[i]);
            if (is_null(requests[i]) || !is_done(requests[i]))
                continue;
            MPI_Status* status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + *done;
            if (mpi().finish(requests + i, status, true) != MPI_SUCCESS)
                rc = MPI_ERR_IN_STATUS;
            indices[(*done)++] = i;
        }
        if (!any)
            *done = MPI_UNDEFINED;
        return rc;
    }
    static int Waitsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses)
    {
        int rc = MPI_SUCCESS;
        mpi().wait_until([&] {
            rc = Testsome(count, requests, done, indices, statuses);
            return *done != 0;
        });
        return rc;
    }
};

void Native::set_calls()
{
    live = this;
    real_.progress = NativeCalls::progress;
#define STORM_CALL(name) real_.name = NativeCalls::name;
    STORM_CALL(Abort) STORM_CALL(Comm_rank) STORM_CALL(Comm_size) STORM_CALL(Comm_test_inter)
    STORM_CALL(Comm_get_name) STORM_CALL(Comm_get_attr) STORM_CALL(Comm_group) STORM_CALL(Comm_call_errhandler)
    STORM_CALL(Group_size) STORM_CALL(Group_free) STORM_CALL(Group_translate_ranks) STORM_CALL(Type_size_x)
    STORM_CALL(Type_get_envelope) STORM_CALL(Type_get_extent) STORM_CALL(Type_get_true_extent)
    STORM_CALL(Type_contiguous) STORM_CALL(Type_commit) STORM_CALL(Type_free) STORM_CALL(Pack) STORM_CALL(Unpack)
    STORM_CALL(Send) STORM_CALL(Isend) STORM_CALL(Issend) STORM_CALL(Irecv) STORM_CALL(Recv) STORM_CALL(Ibarrier)
    STORM_CALL(Iallreduce) STORM_CALL(Cancel) STORM_CALL(Wait) STORM_CALL(Test) STORM_CALL(Waitall)
    STORM_CALL(Testall) STORM_CALL(Waitany) STORM_CALL(Testany) STORM_CALL(Waitsome) STORM_CALL(Testsome)
#undef STORM_CALL
}

} // namespace storm::sim
