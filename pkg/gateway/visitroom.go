package gateway

import "sync"

// visitRooms count the bytes that faces keep here for the clients of visits.
type visitRooms struct {
	memory, disk, ahead visitRoom
}

// visitRoom counts the bytes of one kind.
type visitRoom struct {
	mu       sync.Mutex
	all      int64
	byTenant map[string]int64
}

// KeepInMemory counts n more bytes that a face keeps in memory for what its client sends, and KeepOnDisk as many in
// temporary files. They return false, and count nothing, if the tenant or the gateway has as many as it may. A
// negative n gives bytes back.
func (v *Visit) KeepInMemory(n int64) bool {
	return v.g.visits.rooms.memory.keep(v.caller.Tenant, n, visitMemory, visitMemoryOfAll)
}

// KeepOnDisk is described at [Visit.KeepInMemory].
func (v *Visit) KeepOnDisk(n int64) bool {
	return v.g.visits.rooms.disk.keep(v.caller.Tenant, n, visitDisk, visitDiskOfAll)
}

// KeepAhead is like KeepInMemory for what a face has read ahead of its clients. That is bounded apart, so that readers
// leave room for writers.
func (v *Visit) KeepAhead(n int64) bool {
	return v.g.visits.rooms.ahead.keep(v.caller.Tenant, n, visitAhead, visitAheadOfAll)
}

func (r *visitRoom) keep(tenant string, n, limit, limitOfAll int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.byTenant[tenant] + n
	if n > 0 && (of > limit || r.all+n > limitOfAll) {
		return false
	}
	r.all += n
	if of == 0 {
		delete(r.byTenant, tenant)
		return true
	}
	if r.byTenant == nil {
		r.byTenant = map[string]int64{}
	}
	r.byTenant[tenant] = of
	return true
}
