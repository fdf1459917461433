package sessionstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// head is the main Secret of a session, with its index.
type head struct {
	*corev1.Secret
	index index
}

// index describes a snapshot.
type index struct {
	// Save is the unique name of the save that made it. It makes the
	// resourceVersion change even if nothing else does.
	Save string `json:"save"`
	// First is the name of the session's first save.
	First string `json:"first"`
	// Size, in bytes, and SHA256 are those of the whole snapshot.
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
	// Parts are the names of the Secrets with the rest of the data, in order.
	Parts []string `json:"parts,omitempty"`
}

func headName(id string) string { return "podagent-session-" + nameOf(id) }

// partPrefix returns the prefix of the names of a save's parts.
func partPrefix(id, save string) string { return headName(id) + "-" + save + "-" }

// head returns the session's head, or fs.ErrNotExist.
func (c *Cluster) head(ctx context.Context, id string) (*head, error) {
	secret, err := c.get(ctx, id)
	if err != nil {
		return nil, err
	}
	in, ok := indexOf(secret)
	if !ok {
		return nil, fmt.Errorf("the Secret %s/%s is not a snapshot", c.Namespace, secret.Name)
	}
	return &head{secret, in}, nil
}

// get returns the Secret of the session's head, unchecked, or fs.ErrNotExist.
func (c *Cluster) get(ctx context.Context, id string) (*corev1.Secret, error) {
	secret, err := c.secrets().Get(ctx, headName(id), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, err
	case secret.Annotations[AnnotationSession] != id:
		return nil, fmt.Errorf("the Secret %s/%s belongs to session %q", c.Namespace, secret.Name, secret.Annotations[AnnotationSession])
	}
	return secret, nil
}

// indexOf returns the index of a head, and whether it has one.
func indexOf(secret *corev1.Secret) (in index, ok bool) {
	err := json.Unmarshal(secret.Data[indexKey], &in)
	return in, err == nil && in.Size >= 0 && in.Size <= MaxSnapshot
}

// divide makes the head that replaces a version, and the parts of a large snapshot.
// Parts never change: the next snapshot has new ones. first is the session's first
// save, or empty if this is the first.
func divide(id string, data []byte, version, first string) (next *head, parts []*corev1.Secret) {
	sum := sha256.Sum256(data)
	in := index{Save: rand.String(saveLength), Size: len(data), SHA256: hex.EncodeToString(sum[:])}
	in.First = cmp.Or(first, in.Save)
	chunks := slices.Collect(slices.Chunk(data, maxChunk))
	if len(chunks) == 0 {
		chunks = [][]byte{nil}
	}
	for i, chunk := range chunks[1:] {
		part := newSecret(id, fmt.Sprintf("%s%d", partPrefix(id, in.Save), i), chunk)
		part.Immutable = new(true)
		if version != "" {
			part.Annotations = map[string]string{AnnotationReplaces: version}
		}
		parts = append(parts, part)
	}
	in.Parts = namesOf(parts)
	secret := newSecret(id, headName(id), chunks[0])
	secret.ResourceVersion = version
	secret.Annotations = map[string]string{AnnotationSession: id}
	secret.Data[indexKey], _ = json.Marshal(in) // strings and a number cannot fail
	return &head{secret, in}, parts
}

func newSecret(id, name string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{managedBy: manager, LabelSession: nameOf(id)}},
		Data:       map[string][]byte{dataKey: data},
	}
}

// content loads the parts of a head's snapshot and joins the data.
func (c *Cluster) content(ctx context.Context, h *head) ([]byte, error) {
	chunks := make([][]byte, 1+len(h.index.Parts))
	chunks[0] = h.Data[dataKey]
	err := each(ctx, h.index.Parts, func(ctx context.Context, i int, name string) error {
		part, err := c.secrets().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			chunks[1+i] = part.Data[dataKey]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	data := slices.Concat(chunks...)
	if sum := sha256.Sum256(data); len(data) != h.index.Size || hex.EncodeToString(sum[:]) != h.index.SHA256 {
		return nil, fmt.Errorf("the content of the Secret %s/%s does not match its size and checksum", c.Namespace, h.Name)
	}
	return data, nil
}
