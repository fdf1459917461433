package launcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// KeepWarm keeps connections to up to n (at most 64) pods that wait in a pool, until ctx ends or
// the API server refuses. Launches of this Kubernetes by Take.Pool then need not connect first.
func (k *Kubernetes) KeepWarm(ctx context.Context, pool string, n int) error {
	if n < 1 || n > maxKept {
		return &SpecError{"n", fmt.Sprintf("is %d: a host keeps 1 to %d connections to pods that wait", n, maxKept)}
	}
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return err
	}
	if _, err := c.poolPods(ctx, pool, "0"); isRefusal(err) {
		return err
	}
	return c.keepWarm(ctx, pool, n)
}

// keepers are those of a cluster.
type keepers struct {
	mu   sync.Mutex
	list []*keeper
}

// keeper keeps connections to pods that wait.
type keeper struct {
	*cluster
	pool    string
	watch   cache.Controller
	pods    cache.Store   // of the pool, as the watch has them; nobody changes them
	changed chan struct{} // has a value if they have changed, or a connection was taken

	mu    sync.Mutex
	conns map[types.UID]*warmConn // nil once the keeper ends
	taken time.Time               // when a launch took the latest
	// failed has the pods whose agents did not answer, and until when they are left alone.
	failed map[types.UID]time.Time
}

func (c *cluster) keepWarm(ctx context.Context, pool string, n int) error {
	k := &keeper{
		cluster: c, pool: pool, changed: make(chan struct{}, 1),
		conns: map[types.UID]*warmConn{}, failed: map[types.UID]time.Time{},
	}
	k.pods, k.watch = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: c.poolWatch(pool), ObjectType: &corev1.Pod{}, Transform: dropManagedFields,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { k.wake() },
			UpdateFunc: func(any, any) { k.wake() },
			DeleteFunc: func(any) { k.wake() },
		},
	})
	c.kept.add(k)
	defer c.kept.remove(k)
	var watching sync.WaitGroup
	watching.Go(func() { k.watch.RunWithContext(ctx) })
	defer watching.Wait()
	for ctx.Err() == nil {
		k.drop()
		if pod := k.next(n); pod != nil {
			k.connect(ctx, pod)
		} else {
			k.await(ctx)
		}
	}
	return context.Cause(ctx)
}

// poolWatch lists and watches the pods that wait in a pool.
func (c *cluster) poolWatch(pool string) cache.ListerWatcher {
	return cache.NewFilteredListWatchFromClient(c.api.CoreV1().RESTClient(), "pods", c.namespace, func(o *metav1.ListOptions) {
		o.LabelSelector = poolSelector(pool)
	})
}

// dropManagedFields leaves out what nobody reads, and what is most of a pod.
func dropManagedFields(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

// wake makes the keeper look again.
func (k *keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// await waits until there may be something to do.
func (k *keeper) await(ctx context.Context) {
	again := time.NewTimer(keepPause)
	defer again.Stop()
	select {
	case <-ctx.Done():
	case <-k.changed:
	case <-again.C:
	}
}

// waiting returns the pods that can be taken.
func (k *keeper) waiting() (pods []*corev1.Pod) {
	r, err := k.identities.fresh(context.Background(), ringAge)
	if err != nil {
		return nil
	}
	for _, object := range k.pods.List() {
		if pod := object.(*corev1.Pod); unready(pod, r.accepted()) == "" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// drop closes the connections to pods that no longer wait.
func (k *keeper) drop() {
	waiting := map[types.UID]bool{}
	for _, pod := range k.waiting() {
		waiting[pod.UID] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid, conn := range k.conns {
		if !waiting[uid] {
			conn.close()
			delete(k.conns, uid)
		}
	}
	for uid, until := range k.failed {
		if !waiting[uid] || time.Now().After(until) {
			delete(k.failed, uid)
		}
	}
}

// next returns a pod to connect to; nil if there is none, or if there are n connections.
func (k *keeper) next(n int) *corev1.Pod {
	pods := k.waiting()
	k.mu.Lock()
	defer k.mu.Unlock()
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		return k.conns[pod.UID] != nil || !k.failed[pod.UID].IsZero()
	})
	busy := time.Since(k.taken) < keepPause && len(k.conns) > n/2
	if len(k.conns) >= n || len(pods) == 0 || busy {
		return nil
	}
	return pods[rand.IntN(len(pods))] // other hosts choose, too
}

// connect adds a connection.
func (k *keeper) connect(ctx context.Context, pod *corev1.Pod) {
	conn, err := k.dialWarm(ctx, pod)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.log.Warn("cannot connect to a pod of the pool", "pool", k.pool, "pod", pod.Name, "error", err)
		k.failed[pod.UID] = time.Now().Add(keepRetry)
		return
	}
	k.conns[pod.UID] = conn
	k.log.Debug("connected to a pod that waits", "pool", k.pool, "pod", pod.Name)
}

// take returns the connection to a pod, which is then the caller's; nil if there is none.
func (k *keeper) take(uid types.UID) *warmConn {
	k.mu.Lock()
	defer k.mu.Unlock()
	conn := k.conns[uid]
	if conn != nil {
		delete(k.conns, uid)
		k.taken = time.Now()
	}
	return conn
}

func (k *keeper) has(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.conns[uid] != nil
}

// end closes the connections.
func (k *keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, conn := range k.conns {
		conn.close()
	}
	k.conns = nil
}

func (s *keepers) add(k *keeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, k)
}

// remove ends a keeper.
func (s *keepers) remove(k *keeper) {
	s.mu.Lock()
	s.list = slices.DeleteFunc(s.list, func(other *keeper) bool { return other == k })
	s.mu.Unlock()
	k.end()
}

func (s *keepers) all() []*keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// pods returns the pods of a pool as a watch has them, and whether there is a watch.
func (s *keepers) pods(pool string) (pods []corev1.Pod, watched bool) {
	for _, k := range s.all() {
		if k.pool != pool || !k.watch.HasSynced() {
			continue
		}
		for _, object := range k.pods.List() {
			pods = append(pods, *object.(*corev1.Pod))
		}
		return pods, true
	}
	return nil, false
}

// has reports whether a connection to a pod is kept.
func (s *keepers) has(pod *corev1.Pod) bool {
	return slices.ContainsFunc(s.all(), func(k *keeper) bool { return k.has(pod.UID) })
}

// take returns a connection that was kept to a pod; nil if there is none.
func (s *keepers) take(pod *corev1.Pod) *warmConn {
	for _, k := range s.all() {
		if conn := k.take(pod.UID); conn != nil {
			return conn
		}
	}
	return nil
}
