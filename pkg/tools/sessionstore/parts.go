package sessionstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes/scheme"
)

// index says, in the Secret that a session has, what its snapshot is made of.
type index struct {
	// Size and SHA256 are those of the whole.
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
	// Parts are the Secrets that go on where this one ends, in order.
	Parts []string `json:"parts,omitempty"`
}

func headName(id string) string { return "podagent-session-" + nameOf(id) }

// divide makes the Secret that the session gets, and those with the rest of a
// large snapshot. Parts never change; the next snapshot has others.
func divide(id string, data []byte) (head *corev1.Secret, parts []*corev1.Secret) {
	sum := sha256.Sum256(data)
	in := index{Size: len(data), SHA256: hex.EncodeToString(sum[:])}
	chunks := slices.Collect(slices.Chunk(data, maxChunk))
	if len(chunks) == 0 {
		chunks = [][]byte{nil}
	}
	run := rand.String(10)
	for i, chunk := range chunks[1:] {
		part := newSecret(id, fmt.Sprintf("%s-%s-%d", headName(id), run, i), chunk)
		part.Immutable = new(true)
		parts = append(parts, part)
	}
	in.Parts = namesOf(parts)
	head = newSecret(id, headName(id), chunks[0])
	head.Annotations = map[string]string{AnnotationSession: id}
	head.Data[indexKey], _ = json.Marshal(in) // of strings and a number
	return head, parts
}

func newSecret(id, name string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{managedBy: manager, LabelSession: nameOf(id)}},
		Data:       map[string][]byte{dataKey: data},
	}
}

func namesOf(secrets []*corev1.Secret) []string {
	var names []string
	for _, s := range secrets {
		names = append(names, s.Name)
	}
	return names
}

// content puts together the snapshot that a session's Secret stands for.
func (c *Cluster) content(ctx context.Context, head *corev1.Secret) ([]byte, error) {
	var in index
	if err := json.Unmarshal(head.Data[indexKey], &in); err != nil || in.Size < 0 || in.Size > MaxSnapshot {
		return nil, fmt.Errorf("the Secret %s/%s is no snapshot", c.Namespace, head.Name)
	}
	chunks := make([][]byte, 1+len(in.Parts))
	chunks[0] = head.Data[dataKey]
	err := each(ctx, in.Parts, func(ctx context.Context, i int, name string) error {
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
	if sum := sha256.Sum256(data); len(data) != in.Size || hex.EncodeToString(sum[:]) != in.SHA256 {
		return nil, fmt.Errorf("the Secret %s/%s does not have the content that it says", c.Namespace, head.Name)
	}
	return data, nil
}

func (c *Cluster) createAll(ctx context.Context, parts []*corev1.Secret) error {
	return each(ctx, parts, func(ctx context.Context, _ int, part *corev1.Secret) error {
		_, err := c.secrets().Create(ctx, part, metav1.CreateOptions{})
		return err
	})
}

func (c *Cluster) deleteAll(ctx context.Context, names []string) error {
	return each(ctx, names, func(ctx context.Context, _ int, name string) error {
		err := c.secrets().Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// parts returns all Secrets of the session, but for the one that names the
// others, without their content.
func (c *Cluster) parts(ctx context.Context, id string) ([]metav1.PartialObjectMetadata, error) {
	raw, err := c.Client.CoreV1().RESTClient().Get().Namespace(c.Namespace).Resource("secrets").
		VersionedParams(&metav1.ListOptions{LabelSelector: LabelSession + "=" + nameOf(id)}, scheme.ParameterCodec).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
		DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(s metav1.PartialObjectMetadata) bool { return s.Name == headName(id) }), nil
}

// olderThan returns the names of those that are at least so old.
func olderThan(secrets []metav1.PartialObjectMetadata, age time.Duration) []string {
	var names []string
	for _, s := range secrets {
		if time.Since(s.CreationTimestamp.Time) >= age {
			names = append(names, s.Name)
		}
	}
	return names
}

// tidy deletes the parts of the snapshot before, and those of hosts that were
// killed. What it leaves, the next one that is saved finds.
func (c *Cluster) tidy(ctx context.Context, id string, before, now []string) {
	_ = c.deleteAll(ctx, before)
	all, err := c.parts(ctx, id)
	if err != nil {
		return
	}
	strays := olderThan(all, strayAge)
	_ = c.deleteAll(ctx, slices.DeleteFunc(strays, func(name string) bool { return slices.Contains(now, name) }))
}

// each calls do for all of them, a few at a time, and returns all errors.
func each[T any](ctx context.Context, all []T, do func(ctx context.Context, i int, v T) error) error {
	errs := make([]error, len(all))
	room := make(chan struct{}, maxParallel)
	var group sync.WaitGroup
	for i, v := range all {
		room <- struct{}{}
		group.Go(func() {
			errs[i] = do(ctx, i, v)
			<-room
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
