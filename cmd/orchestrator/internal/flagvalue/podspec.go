package flagvalue

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

// Volumes is a flag that adds the mount of a claim.
type Volumes []launcher.Volume

func (v *Volumes) Type() string { return "CLAIM[/SUBPATH]:DIR[:ro]" }

func (v *Volumes) String() string {
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

func (v *Volumes) Set(s string) error {
	text, readOnly := strings.CutSuffix(s, ":ro")
	from, dir, ok := strings.Cut(text, ":")
	claim, subPath, below := strings.Cut(from, "/")
	if !ok || claim == "" || dir == "" || below && subPath == "" {
		return errors.New("it is not CLAIM[/SUBPATH]:DIR[:ro]")
	}
	*v = append(*v, launcher.Volume{Claim: claim, SubPath: subPath, Path: dir, ReadOnly: readOnly})
	return nil
}

// Names is a flag that adds a name.
type Names []string

func (n *Names) Type() string   { return "NAME" }
func (n *Names) String() string { return strings.Join(*n, ",") }

func (n *Names) Set(s string) error {
	*n = append(*n, s)
	return nil
}

// Words is a flag for a command: words between spaces, or a JSON array of them.
type Words []string

func (w *Words) Type() string   { return "COMMAND" }
func (w *Words) String() string { return strings.Join(*w, " ") }

func (w *Words) Set(s string) error {
	*w = strings.Fields(s)
	if strings.HasPrefix(strings.TrimSpace(s), "[") {
		*w = nil
		if err := json.Unmarshal([]byte(s), w); err != nil {
			return fmt.Errorf("it is not a JSON array of words: %w", err)
		}
	}
	return nil
}

// Size is a flag for an amount of bytes, or 0 for no bound, which is -1 in the library.
// Zero stands for the library's default.
type Size resource.Quantity

func (z *Size) Type() string { return "SIZE" }

func (z *Size) String() string {
	q := (*resource.Quantity)(z)
	switch q.Sign() {
	case 0:
		return ""
	case -1:
		return "0"
	}
	return q.String()
}

func (z *Size) Set(s string) error {
	q, err := resource.ParseQuantity(s)
	if err != nil || q.Sign() < 0 {
		return errors.New("it is not a size such as 10Gi")
	}
	if q.IsZero() {
		q = *resource.NewQuantity(-1, resource.BinarySI)
	}
	*z = Size(q)
	return nil
}

// Tolerations is a flag that adds a toleration, written as "kubectl taint" does.
type Tolerations []corev1.Toleration

func (t *Tolerations) Type() string { return "KEY[=VALUE][:EFFECT]" }

func (t *Tolerations) String() string {
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

func (t *Tolerations) Set(s string) error {
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

// maxPatchFile bounds how much of a patch is read: more than the library accepts,
// so that its error names the limit.
const maxPatchFile = 1 << 20

// PatchFile is a flag for the path of a file with a part of a pod, or - for standard
// input. It holds the content.
type PatchFile []byte

func (p *PatchFile) Type() string   { return "FILE" }
func (p *PatchFile) String() string { return string(*p) }

func (p *PatchFile) Set(path string) error {
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
