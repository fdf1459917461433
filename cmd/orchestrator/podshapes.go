package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
)

// volumes is a flag that mounts a claim.
type volumes []launcher.Volume

func (v *volumes) Type() string { return "CLAIM[/SUBPATH]:DIR[:ro]" }

func (v *volumes) String() string {
	var texts []string
	for _, m := range *v {
		text := m.Claim
		if m.SubPath != "" {
			text += "/" + m.SubPath
		}
		text += ":" + m.Path
		if m.ReadOnly {
			text += ":ro"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

func (v *volumes) Set(s string) error {
	text, readOnly := strings.CutSuffix(s, ":ro")
	from, dir, ok := strings.Cut(text, ":")
	claim, subPath, below := strings.Cut(from, "/")
	if !ok || claim == "" || dir == "" || below && subPath == "" {
		return errors.New("it is not CLAIM[/SUBPATH]:DIR[:ro]")
	}
	*v = append(*v, launcher.Volume{Claim: claim, SubPath: subPath, Path: dir, ReadOnly: readOnly})
	return nil
}

// names is a flag that adds a name.
type names []string

func (n *names) Type() string   { return "NAME" }
func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(s string) error {
	*n = append(*n, s)
	return nil
}

// words is a flag for a command.
type words []string

func (w *words) Type() string   { return "COMMAND" }
func (w *words) String() string { return strings.Join(*w, " ") }

func (w *words) Set(s string) error {
	*w = strings.Fields(s)
	if strings.HasPrefix(strings.TrimSpace(s), "[") {
		*w = nil
		if err := json.Unmarshal([]byte(s), w); err != nil {
			return fmt.Errorf("it is no JSON array of words: %w", err)
		}
	}
	return nil
}

// size is a flag for an amount of bytes.
type size resource.Quantity

func (z *size) Type() string { return "SIZE" }

func (z *size) String() string {
	q := (*resource.Quantity)(z)
	if q.IsZero() {
		return ""
	}
	return q.String()
}

func (z *size) Set(s string) error {
	q, err := resource.ParseQuantity(s)
	if err != nil || q.Sign() <= 0 {
		return errors.New("it is not a size such as 10Gi")
	}
	*z = size(q)
	return nil
}

// tolerations is a flag that adds a toleration, written as "kubectl taint" does.
type tolerations []corev1.Toleration

func (t *tolerations) Type() string { return "KEY[=VALUE][:EFFECT]" }

func (t *tolerations) String() string {
	var texts []string
	for _, one := range *t {
		text := one.Key
		if one.Operator == corev1.TolerationOpEqual {
			text += "=" + one.Value
		}
		if one.Effect != "" {
			text += ":" + string(one.Effect)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

func (t *tolerations) Set(s string) error {
	taint, effect, hasEffect := strings.Cut(s, ":")
	key, value, equal := strings.Cut(taint, "=")
	if key == "" || hasEffect && effect == "" {
		return errors.New("it is not KEY[=VALUE][:EFFECT]")
	}
	one := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(effect)}
	if equal {
		one.Operator, one.Value = corev1.TolerationOpEqual, value
	}
	*t = append(*t, one)
	return nil
}

// maxPatchFile bounds what is read of a patch: more than the library takes, so
// that it says so.
const maxPatchFile = 1 << 20

// patchFile is a flag for the path of a file with a part of a pod.
type patchFile []byte

func (p *patchFile) Type() string   { return "FILE" }
func (p *patchFile) String() string { return string(*p) }

func (p *patchFile) Set(path string) error {
	var in io.Reader = os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxPatchFile))
	*p = data
	return err
}
