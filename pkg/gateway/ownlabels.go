package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/podagent/podagent/pkg/launcher"
)

// Labels that the gateway gives to a new sandbox, for itself.
const (
	// labelIdentity tells a sandbox from its successor of the same name.
	labelIdentity = ownLabels + "identity"
	// labelMaker tells the caller's key that made a sandbox: its budget pays when nobody's does.
	labelMaker = ownLabels + "maker"
	// labelRequest has digests of the Idempotency-Key and the request that made a sandbox.
	labelRequest = ownLabels + "request"
	// labelAutoPause is of one that pauses when it is idle, and is resumed by calls.
	labelAutoPause = ownLabels + "auto-pause"
	// labelSession is of one that a session made for itself, and says of which protocol.
	labelSession = ownLabels + "session"
	// labelSeedKey names the key of links that the seed of its way out is made of.
	labelSeedKey = ownLabels + "seed-key"
	// labelPublic has the ports that anybody may call, with portSeparator between them: up to
	// ten, since a label has 63 bytes. Or it is allPorts.
	labelPublic   = ownLabels + "public-ports"
	portSeparator = "_"
	allPorts      = "all"
)

// checkPorts refuses what is no port.
func checkPorts(ports []int) error {
	for _, port := range ports {
		if port < 1 || port > 65535 {
			return invalid("public_ports has %d: ports are 1 to 65535", port)
		}
	}
	return nil
}

// makerOf is the label of a caller's key, whose name may not be one.
func makerOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

// withOwn adds the gateway's labels to those of a new sandbox.
func withOwn(labels map[string]string, caller Caller, key string, of *NewSandbox) map[string]string {
	all := map[string]string{labelIdentity: rand.Text(), labelMaker: makerOf(caller.Key)}
	maps.Copy(all, labels)
	addOwner(all, caller)
	if key != "" {
		all[labelRequest] = requestLabel(key, of)
	}
	if of.AutoPause {
		all[labelAutoPause] = "true"
	}
	switch {
	case of.AllPublic:
		all[labelPublic] = allPorts
	case len(of.PublicPorts) > 0:
		ports := make([]string, len(of.PublicPorts))
		for i, port := range of.PublicPorts {
			ports[i] = strconv.Itoa(port)
		}
		all[labelPublic] = strings.Join(ports, portSeparator)
	}
	return all
}

// withoutOwn returns the labels of a sandbox that callers see.
func withoutOwn(labels map[string]string) map[string]string {
	seen := maps.Clone(labels)
	for _, name := range []string{labelIdentity, labelRequest, labelMaker, labelAutoPause, labelPublic, labelSession, labelSeedKey} {
		delete(seen, name)
	}
	maps.DeleteFunc(seen, func(name, _ string) bool {
		return strings.HasPrefix(name, labelEgress) || strings.HasPrefix(name, labelOwner)
	})
	return seen
}

// publicPorts returns the ports of a sandbox that anybody may call, unless these are all.
func publicPorts(s launcher.Summary) (ports []int) {
	for text := range strings.SplitSeq(s.Labels[labelPublic], portSeparator) {
		if port, ok := parsePort(text); ok {
			ports = append(ports, port)
		}
	}
	return ports
}

// isPublic reports whether anybody may call a port of a sandbox.
func isPublic(s launcher.Summary, port int) bool {
	return allPublic(s) || slices.Contains(publicPorts(s), port)
}

// allPublic reports whether anybody may call all ports of a sandbox.
func allPublic(s launcher.Summary) bool { return s.Labels[labelPublic] == allPorts }

// identityOf tells a sandbox from its successor of the same name. One that was not made by a
// gateway has its time for that.
func identityOf(s launcher.Summary) []byte {
	identity := s.Labels[labelIdentity]
	if identity == "" {
		identity = s.CreatedAt.UTC().String()
	}
	sum := sha256.Sum256([]byte(identity))
	return sum[:linkIdentity]
}
