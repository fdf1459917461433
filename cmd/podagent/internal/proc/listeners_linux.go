package proc

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"

	"github.com/podagent/podagent/pkg/procfs"
)

// Listener is a TCP port at which a process of the sandbox listens.
type Listener struct {
	Port uint16
	// Addresses are where it listens, in order, up to listenerAddresses of them.
	Addresses []netip.Addr
	// PID is the oldest process that has the socket, and Name the name that it gave itself, any bytes.
	PID  int
	Name string
	// ExecID is that of its exec; "" for a stray, and for what came into the sandbox from outside.
	ExecID string
}

// Listeners returns the ports at which processes of the sandbox listen on addresses that reached says can be reached, in order,
// up to maxListeners of them. It says whether those are all. A socket counts if it belongs to a process of the sandbox
// that the agent may look into: the network may be shared with others, and what they listen on is not told.
func (m *Manager) Listeners(ctx context.Context, reached func(netip.Addr) bool) (list []Listener, all bool, err error) {
	m.listening.Lock() // one scan at a time
	defer m.listening.Unlock()
	sockets := map[uint64]netip.AddrPort{}
	all, err = m.proc.Listeners(func(l procfs.Listener) {
		if reached(l.Address.Addr()) {
			sockets[l.Inode] = l.Address
		}
	})
	if err != nil {
		return nil, false, fmt.Errorf("cannot list the sockets: %w", err)
	}
	found := listeners{sockets: sockets, ports: map[uint16]*Listener{}}
	if _, err := m.proc.Sockets(os.Getpid(), ownDescriptors, found.drop); err != nil {
		return nil, false, fmt.Errorf("cannot list the agent's own sockets: %w", err)
	}
	members, execs, err := m.inside()
	if err != nil {
		return nil, false, err
	}
	left := scannedDescriptors
	for _, a := range members {
		if len(found.sockets) == 0 || left == 0 || ctx.Err() != nil {
			break
		}
		most := min(left, processDescriptors)
		looked, _ := m.proc.Sockets(a.pid, most, func(inode uint64) bool { return found.add(inode, a.pid, execs[a.pid]) })
		left -= looked
		all = all && looked < most // one that ends meanwhile listens no more
	}
	list, whole := found.list(&m.proc.FS)
	return list, all && whole, ctx.Err()
}

// inside returns the processes of the sandbox, the oldest first, and the ids of their execs. In a name space of its own,
// whose first process the agent is, these are all.
func (m *Manager) inside() (members []member, execs map[int]string, err error) {
	alive, err := m.proc.all()
	if err != nil {
		return nil, nil, err
	}
	execs = map[int]string{}
	for id, its := range m.byExec(alive) {
		for _, a := range its {
			execs[a.pid] = id
		}
		members = append(members, its...)
	}
	if os.Getpid() == 1 {
		members = alive
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid)) })
	return members, execs, nil
}

// listeners sorts sockets by their ports.
type listeners struct {
	sockets map[uint64]netip.AddrPort // by inode, those whose process is not known yet
	ports   map[uint16]*Listener
}

// drop leaves a socket out, and reports whether there are others.
func (l *listeners) drop(inode uint64) bool {
	delete(l.sockets, inode)
	return len(l.sockets) > 0
}

// add adds a socket of a process, and reports whether there are others whose process is not known.
func (l *listeners) add(inode uint64, pid int, exec string) bool {
	address, listens := l.sockets[inode]
	if !listens {
		return true
	}
	port := l.ports[address.Port()]
	if port == nil {
		port = &Listener{Port: address.Port(), PID: pid, ExecID: exec}
		l.ports[address.Port()] = port
	}
	if ip := address.Addr(); len(port.Addresses) < listenerAddresses && !slices.Contains(port.Addresses, ip) {
		port.Addresses = append(port.Addresses, ip)
	}
	return l.drop(inode)
}

// list returns the ports with the names of their processes, and whether they are all.
func (l *listeners) list(fs *procfs.FS) (list []Listener, all bool) {
	numbers := slices.Sorted(maps.Keys(l.ports))
	for _, number := range numbers[:min(len(numbers), maxListeners)] {
		port := *l.ports[number]
		port.Name, _ = fs.Name(port.PID) // one that has ended has none
		slices.SortFunc(port.Addresses, netip.Addr.Compare)
		list = append(list, port)
	}
	return list, len(numbers) <= maxListeners
}
