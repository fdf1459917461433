package gateway

import "testing"

func TestATenantsVisitsHaveOneRoomAndAllOfAGatewayAnother(t *testing.T) {
	g := New(Options{})
	defer g.Close()
	visit := func(tenant string) *Visit { return &Visit{g: g, caller: SSHCaller{Caller: Caller{Tenant: tenant}}} }
	for what, keep := range map[string]struct {
		of         func(*Visit, int64) bool
		one, total int64
	}{
		"memory": {(*Visit).KeepInMemory, visitMemory, visitMemoryOfAll}, "disk": {(*Visit).KeepOnDisk, visitDisk, visitDiskOfAll},
		"ahead": {(*Visit).KeepAhead, visitAhead, visitAheadOfAll},
	} {
		if !keep.of(visit("a"), keep.one) || keep.of(visit("a"), 1) {
			t.Errorf("%s: two visits of a tenant are bounded apart", what)
		}
		left := keep.total - keep.one
		for i := 'b'; left > 0; i++ {
			n := min(left, keep.one)
			if !keep.of(visit(string(i)), n) {
				t.Fatalf("%s: %d bytes are left, and tenant %c may not have %d", what, left, i, n)
			}
			left -= n
		}
		if keep.of(visit("z"), 1) {
			t.Errorf("%s: a gateway has no bound", what)
		}
		keep.of(visit("a"), -keep.one)
		if !keep.of(visit("z"), keep.one) {
			t.Errorf("%s: what was given back is not free", what)
		}
	}
}
