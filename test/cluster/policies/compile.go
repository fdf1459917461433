package main

import (
	"encoding/binary"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// objects are the cluster's network policies, and the pods and namespaces that they
// select, each in a fixed order.
type objects struct {
	policies   []*networkingv1.NetworkPolicy
	pods       []*corev1.Pod
	namespaces []*corev1.Namespace
}

// rules returns what the policies say. A pod that no policy of a direction selects
// is not isolated in it. Of several policies, each adds what it allows.
func (o objects) rules() rules {
	r := rules{ingress: map[netip.Addr][]allow{}, egress: map[netip.Addr][]allow{}}
	for _, policy := range o.policies {
		isolated := o.selected([]string{policy.Namespace}, &policy.Spec.PodSelector)
		if slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			for _, pod := range isolated {
				r.ingress[address(pod)] = append(r.ingress[address(pod)], o.ingress(policy, pod)...)
			}
		}
		if slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			allows := o.egress(policy)
			for _, pod := range isolated {
				r.egress[address(pod)] = append(r.egress[address(pod)], allows...)
			}
		}
	}
	return r
}

// ingress returns what a policy lets a pod receive. Names of ports are those of the
// pod.
func (o objects) ingress(policy *networkingv1.NetworkPolicy, pod *corev1.Pod) (all []allow) {
	for _, rule := range policy.Spec.Ingress {
		_, peers := o.peers(policy.Namespace, rule.From)
		ports := numbers(rule.Ports, pod)
		if (len(rule.From) == 0 || len(peers) > 0) && (len(rule.Ports) == 0 || len(ports) > 0) {
			all = append(all, allow{peers: peers, ports: ports})
		}
	}
	return all
}

// egress returns what a policy lets its pods send. Names of ports are those of the
// receivers, so each name is resolved for each of them.
func (o objects) egress(policy *networkingv1.NetworkPolicy) (all []allow) {
	for _, rule := range policy.Spec.Egress {
		pods, peers := o.peers(policy.Namespace, rule.To)
		named, numbered := byName(rule.Ports)
		ports := numbers(numbered, nil)
		if (len(rule.To) == 0 || len(peers) > 0) && (len(rule.Ports) == 0 || len(ports) > 0) {
			all = append(all, allow{peers: peers, ports: ports})
		}
		for _, pod := range pods {
			if ports := numbers(named, pod); len(ports) > 0 {
				all = append(all, allow{peers: addressesOf([]*corev1.Pod{pod}), ports: ports})
			}
		}
	}
	return all
}

// byName separates ports with a name from the others.
func byName(all []networkingv1.NetworkPolicyPort) (named, numbered []networkingv1.NetworkPolicyPort) {
	for _, port := range all {
		if port.Port != nil && port.Port.Type == intstr.String {
			named = append(named, port)
		} else {
			numbered = append(numbered, port)
		}
	}
	return named, numbered
}

// numbers returns ports by their numbers, with the names as in a pod.
func numbers(all []networkingv1.NetworkPolicyPort, pod *corev1.Pod) (list []ports) {
	for _, port := range all {
		protocol := corev1.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		switch {
		case port.Port == nil:
			list = append(list, ports{protocolNumbers[protocol], 0, 1<<16 - 1})
		case port.Port.Type == intstr.String:
			for _, number := range numbersOf(pod, port.Port.StrVal, protocol) {
				list = append(list, ports{protocolNumbers[protocol], number, number})
			}
		case port.EndPort != nil:
			list = append(list, ports{protocolNumbers[protocol], uint16(port.Port.IntVal), uint16(*port.EndPort)})
		default:
			list = append(list, ports{protocolNumbers[protocol], uint16(port.Port.IntVal), uint16(port.Port.IntVal)})
		}
	}
	return list
}

// protocolNumbers are the numbers that IP gives to the protocols of policies.
var protocolNumbers = map[corev1.Protocol]byte{corev1.ProtocolTCP: 6, corev1.ProtocolUDP: 17, corev1.ProtocolSCTP: 132}

// numbersOf returns the ports of a pod's containers that have a name.
func numbersOf(pod *corev1.Pod, name string, protocol corev1.Protocol) (list []uint16) {
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, port := range container.Ports {
			if port.Name == name && port.Protocol == protocol {
				list = append(list, uint16(port.ContainerPort))
			}
		}
	}
	return list
}

// peers returns the pods that a policy in a namespace names, and all addresses that
// it names, with those of the pods. No peers stand for every pod and every address,
// of which the list is empty.
func (o objects) peers(namespace string, peers []networkingv1.NetworkPolicyPeer) (pods []*corev1.Pod, all []addresses) {
	if len(peers) == 0 {
		return o.selected(o.namespacesWith(&metav1.LabelSelector{}), &metav1.LabelSelector{}), nil
	}
	for _, peer := range peers {
		if peer.IPBlock != nil {
			all = append(all, block(peer.IPBlock)...)
			continue
		}
		namespaces, of := []string{namespace}, peer.PodSelector
		if peer.NamespaceSelector != nil {
			namespaces = o.namespacesWith(peer.NamespaceSelector)
		}
		if of == nil {
			of = &metav1.LabelSelector{}
		}
		pods = append(pods, o.selected(namespaces, of)...)
	}
	return pods, merge(append(all, addressesOf(pods)...))
}

// namespacesWith returns the names of the namespaces with some labels.
func (o objects) namespacesWith(of *metav1.LabelSelector) (names []string) {
	for _, namespace := range o.namespaces {
		if matches(of, namespace.Labels) {
			names = append(names, namespace.Name)
		}
	}
	return names
}

// selected returns the pods in some namespaces with some labels, except for those
// without an address of their own.
func (o objects) selected(namespaces []string, of *metav1.LabelSelector) (pods []*corev1.Pod) {
	for _, pod := range o.pods {
		if address(pod).IsValid() && slices.Contains(namespaces, pod.Namespace) && matches(of, pod.Labels) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// matches reports whether a selector matches labels. The API server has checked the
// selector.
func matches(of *metav1.LabelSelector, has map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(of)
	return err == nil && selector.Matches(labels.Set(has))
}

// address returns the IPv4 address of a pod. It is invalid if the pod has none yet,
// has ended, so that another pod may get it, or has the node's.
func address(pod *corev1.Pod) netip.Addr {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if ended || pod.Spec.HostNetwork || err != nil || !ip.Is4() {
		return netip.Addr{}
	}
	return ip
}

// addressesOf returns the addresses of pods.
func addressesOf(pods []*corev1.Pod) (list []addresses) {
	for _, pod := range pods {
		list = append(list, addresses{address(pod), address(pod)})
	}
	return list
}

// block returns the addresses of a block without its exceptions. A block of IPv6 has
// none, because no pod has such an address.
func block(b *networkingv1.IPBlock) []addresses {
	whole, ok := prefix(b.CIDR)
	if !ok {
		return nil
	}
	left := []addresses{whole}
	for _, except := range b.Except {
		if e, ok := prefix(except); ok {
			var rest []addresses
			for _, a := range left {
				rest = append(rest, a.without(e)...)
			}
			left = rest
		}
	}
	return left
}

// prefix returns the addresses of an IPv4 prefix.
func prefix(cidr string) (addresses, bool) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil || !p.Addr().Is4() {
		return addresses{}, false
	}
	first := p.Masked().Addr().As4()
	var last [4]byte
	binary.BigEndian.PutUint32(last[:], binary.BigEndian.Uint32(first[:])|uint32(1<<(32-p.Bits())-1))
	return addresses{netip.AddrFrom4(first), netip.AddrFrom4(last)}, true
}

// without returns the addresses that are not among others.
func (a addresses) without(b addresses) (left []addresses) {
	if a.last.Less(b.first) || b.last.Less(a.first) {
		return []addresses{a}
	}
	if a.first.Less(b.first) {
		left = append(left, addresses{a.first, b.first.Prev()})
	}
	if b.last.Less(a.last) {
		left = append(left, addresses{b.last.Next(), a.last})
	}
	return left
}

// merge returns the same addresses in order, in ranges that do not touch.
func merge(all []addresses) (merged []addresses) {
	slices.SortFunc(all, func(a, b addresses) int { return a.first.Compare(b.first) })
	for _, a := range all {
		if n := len(merged); n > 0 && !merged[n-1].last.Less(a.first.Prev()) {
			if merged[n-1].last.Less(a.last) {
				merged[n-1].last = a.last
			}
		} else {
			merged = append(merged, a)
		}
	}
	return merged
}
