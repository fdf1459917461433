package main

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// rules are the traffic of the isolated pods: by each one's address, what it may
// receive or send. A pod that is not in ingress may receive everything, and one
// that is not in egress may send everything.
type rules struct{ ingress, egress map[netip.Addr][]allow }

// allow lets packets pass that are from or to any of the peers and any of the
// ports. No peers stand for every address, and no ports for every packet.
type allow struct {
	peers []addresses
	ports []ports
}

// addresses are the IPv4 addresses from first to last.
type addresses struct{ first, last netip.Addr }

// ports are the ports from first to last of a protocol, which has the number that
// IP gives it.
type ports struct {
	protocol    byte
	first, last uint16
}

// filter is a table of the machine's packet filter for the pods on one bridge.
type filter struct{ table, bridge string }

// The offsets of the addresses in an IPv4 header, and of the destination port in
// the headers of TCP, UDP and SCTP.
const (
	sourceOffset      = 12
	destinationOffset = 16
	portOffset        = 2
)

// socketBuffer is enough for a batch with its answers, which the kernel puts
// together at once.
const socketBuffer = 16 << 20

// mostElements bounds the elements of one message, in which they must fit in 64 KB.
const mostElements = 500

// replace puts rules in force in place of the last ones, all at once.
//
// Of connections, only the first packet is filtered. What is refused is answered,
// so that the sender need not wait. Pods on one bridge pass the hook for what is
// forwarded because the bridge is told to call it (nf_call_iptables). This machine
// sends to pods through another hook, and so may always do so. Pods have no
// addresses but those of IPv4; what they would send by IPv6 between their
// interfaces is dropped.
func (f filter) replace(r rules) error {
	conn, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		if err := c.SetWriteBuffer(socketBuffer); err != nil {
			return err
		}
		return c.SetReadBuffer(socketBuffer)
	}))
	if err != nil {
		return err
	}
	b := &batch{Conn: conn, table: &nftables.Table{Family: nftables.TableFamilyINet, Name: f.table}}
	b.AddTable(b.table) // or there would be none to delete the first time
	b.DelTable(b.table)
	b.AddTable(b.table)
	if err := b.direction("egress", r.egress, sourceOffset, destinationOffset); err != nil {
		return err
	}
	if err := b.direction("ingress", r.ingress, destinationOffset, sourceOffset); err != nil {
		return err
	}
	input := b.hook("input", nftables.ChainHookInput)
	forward := b.hook("forward", nftables.ChainHookForward)
	for _, on := range []struct {
		chain     *nftables.Chain
		direction string
		key       expr.MetaKey
	}{
		{input, "egress", expr.MetaKeyIIFNAME},
		{forward, "egress", expr.MetaKeyIIFNAME},
		{forward, "ingress", expr.MetaKeyOIFNAME},
	} {
		iface := meta(on.key, name(f.bridge))
		b.rule(on.chain, iface, meta(expr.MetaKeyNFPROTO, []byte{unix.NFPROTO_IPV6}), verdict(expr.VerdictDrop, ""))
		b.rule(on.chain, iface, verdict(expr.VerdictJump, on.direction))
	}
	return b.Flush()
}

// check returns an error if the table does not exist.
func (f filter) check() error {
	_, err := (&nftables.Conn{}).ListTableOfFamily(f.table, nftables.TableFamilyINet)
	return err
}

// batch is what is sent to the kernel at once.
type batch struct {
	*nftables.Conn
	table *nftables.Table
}

// chain adds a chain that others jump to.
func (b *batch) chain(name string) *nftables.Chain {
	return b.AddChain(&nftables.Chain{Name: name, Table: b.table})
}

// hook adds a chain that the kernel calls for packets.
func (b *batch) hook(name string, hook *nftables.ChainHook) *nftables.Chain {
	return b.AddChain(&nftables.Chain{
		Name: name, Table: b.table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter,
	})
}

// rule adds a rule of several parts to a chain.
func (b *batch) rule(chain *nftables.Chain, parts ...[]expr.Any) {
	b.AddRule(&nftables.Rule{Table: b.table, Chain: chain, Exprs: slices.Concat(parts...)})
}

// direction adds the chain of a direction. It finds the packet's pod by its address
// at the offset own. Pods that may do the same share a chain.
func (b *batch) direction(direction string, pods map[netip.Addr][]allow, own, peer uint32) error {
	chain := b.chain(direction)
	b.rule(chain, known(), verdict(expr.VerdictReturn, ""))
	byPod := &nftables.Set{
		Table: b.table, Name: direction + "-pods", IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeVerdict,
	}
	var elements []nftables.SetElement
	shared := map[string]string{}
	for _, pod := range slices.SortedFunc(maps.Keys(pods), netip.Addr.Compare) {
		key := fmt.Sprint(pods[pod])
		if shared[key] == "" {
			shared[key] = fmt.Sprintf("%s-%d", direction, len(shared))
			if err := b.allows(shared[key], pods[pod], peer); err != nil {
				return err
			}
		}
		elements = append(elements, nftables.SetElement{
			Key: pod.AsSlice(), VerdictData: &expr.Verdict{Kind: expr.VerdictJump, Chain: shared[key]},
		})
	}
	if err := b.set(byPod, elements); err != nil {
		return err
	}
	b.rule(chain, load(expr.PayloadBaseNetworkHeader, own, net4), lookup(byPod, true))
	return nil
}

// allows adds a chain that lets some packets pass, and refuses the others.
func (b *batch) allows(name string, all []allow, peer uint32) error {
	chain := b.chain(name)
	for i, a := range all {
		var peers []expr.Any
		if len(a.peers) > 0 {
			set := &nftables.Set{Table: b.table, Name: fmt.Sprintf("%s-%d", name, i), KeyType: nftables.TypeIPAddr, Interval: true}
			if err := b.set(set, intervals(a.peers)); err != nil {
				return err
			}
			peers = append(load(expr.PayloadBaseNetworkHeader, peer, net4), lookup(set, false)...)
		}
		if len(a.ports) == 0 {
			b.rule(chain, peers, verdict(expr.VerdictReturn, ""))
		}
		for _, p := range a.ports {
			b.rule(chain, peers, p.match(), verdict(expr.VerdictReturn, ""))
		}
	}
	b.rule(chain, meta(expr.MetaKeyL4PROTO, []byte{unix.IPPROTO_TCP}), reject(unix.NFT_REJECT_TCP_RST, 0))
	b.rule(chain, reject(unix.NFT_REJECT_ICMPX_UNREACH, unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED))
	return nil
}

// set adds a set with its elements.
func (b *batch) set(set *nftables.Set, elements []nftables.SetElement) error {
	if err := b.AddSet(set, nil); err != nil {
		return err
	}
	for some := range slices.Chunk(elements, mostElements) {
		if err := b.SetAddElements(set, some); err != nil {
			return err
		}
	}
	return nil
}

// intervals are the elements of a set of ranges, which must not touch. The end of
// an interval is the address after its last, which the last of all does not have.
func intervals(ranges []addresses) []nftables.SetElement {
	var elements []nftables.SetElement
	for _, r := range ranges {
		elements = append(elements, nftables.SetElement{Key: r.first.AsSlice()})
		if end := r.last.Next(); end.IsValid() {
			elements = append(elements, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
		}
	}
	return elements
}

// net4 is the size of an IPv4 address.
const net4 = 4

// load loads a part of a packet's header for what follows.
func load(base expr.PayloadBase, offset, size uint32) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: base, Offset: offset, Len: size}}
}

// lookup matches what was loaded if it is in a set. If the set maps it to verdicts,
// its verdict is the rule's.
func lookup(set *nftables.Set, verdicts bool) []expr.Any {
	return []expr.Any{&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID, IsDestRegSet: verdicts}}
}

// meta matches packets by a fact that is not in them.
func meta(key expr.MetaKey, value []byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: value}}
}

// name returns the name of an interface as the kernel compares it.
func name(iface string) []byte {
	data := make([]byte, unix.IFNAMSIZ)
	copy(data, iface)
	return data
}

// known matches the packets of a connection whose first packet passed, and the
// errors that answer to it.
func known() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4, Xor: make([]byte, 4),
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

// match matches packets to the ports.
func (p ports) match() []expr.Any {
	return slices.Concat(
		meta(expr.MetaKeyL4PROTO, []byte{p.protocol}),
		load(expr.PayloadBaseTransportHeader, portOffset, 2),
		[]expr.Any{&expr.Range{
			Op: expr.CmpOpEq, Register: 1,
			FromData: binaryutil.BigEndian.PutUint16(p.first), ToData: binaryutil.BigEndian.PutUint16(p.last),
		}},
	)
}

// verdict ends a rule.
func verdict(kind expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}
}

// reject refuses a packet with an answer.
func reject(kind uint32, code byte) []expr.Any {
	return []expr.Any{&expr.Reject{Type: kind, Code: code}}
}
