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

// KeepWarm keeps up to n (at most 64) pods of a pool connected for launches by Take.Pool, until
// ctx ends or the API server refuses.
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

// keeper keeps connections to pods that wait.
type keeper struct {
	*cluster
	pool    string
	watch   cache.SharedInformer // of the pool's pods; nobody changes them
	changed chan struct{}        // has a value if the pods have changed

	mu    sync.Mutex
	conns map[types.UID]keptConn
	left  map[types.UID]bool // the pods that launches are taking
	taken time.Time          // when a launch began to take the latest
}

// keptConn is a connection, and when its agent has last answered.
type keptConn struct {
	*warmConn
	answered time.Time
}

func (c *cluster) keepWarm(ctx context.Context, pool string, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k := &keeper{
		cluster: c, pool: pool, changed: make(chan struct{}, 1),
		conns: map[types.UID]keptConn{}, left: map[types.UID]bool{},
	}
	if err := k.watchPool(cancel); err != nil {
		return err
	}
	c.kept.add(k)
	defer c.kept.remove(k)
	var watching sync.WaitGroup
	watching.Go(func() { k.watch.RunWithContext(ctx) })
	defer watching.Wait()
	for ctx.Err() == nil {
		waiting := k.waiting(ctx)
		k.drop(waiting)
		if pod := k.next(waiting, n); pod != nil {
			k.connect(ctx, pod)
		} else if !k.checkOldest(ctx) {
			k.await(ctx)
		}
	}
	return context.Cause(ctx)
}

// watchPool makes the watch of the pods that wait in the pool. The watch calls refused if the
// API server refuses it.
func (k *keeper) watchPool(refused func(error)) error {
	k.watch = cache.NewSharedInformer(
		cache.NewFilteredListWatchFromClient(k.api.CoreV1().RESTClient(), "pods", k.namespace, func(o *metav1.ListOptions) {
			o.LabelSelector = poolSelector(k.pool)
		}), &corev1.Pod{}, 0)
	if err := k.watch.SetTransform(dropManagedFields); err != nil {
		return err
	}
	err := k.watch.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if isRefusal(err) {
			refused(k.apiError("*", err))
		}
	})
	if err != nil {
		return err
	}
	_, err = k.watch.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { k.wake() },
		UpdateFunc: func(any, any) { k.wake() },
		DeleteFunc: func(any) { k.wake() },
	})
	return err
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

// waiting returns the pods that can be taken, as far as the watch knows. If the identity cannot
// be read now, the keys that are known count.
func (k *keeper) waiting(ctx context.Context) map[types.UID]*corev1.Pod {
	r, _ := k.identities.fresh(ctx, ringAge)
	pods := map[types.UID]*corev1.Pod{}
	for _, object := range k.watch.GetStore().List() {
		if pod := object.(*corev1.Pod); unready(pod, r.accepted()) == "" {
			pods[pod.UID] = pod
		}
	}
	return pods
}

// drop closes the connections to pods that no longer wait.
func (k *keeper) drop(waiting map[types.UID]*corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid, conn := range k.conns {
		if waiting[uid] == nil {
			conn.close()
			delete(k.conns, uid)
		}
	}
	for uid := range k.left {
		if waiting[uid] == nil {
			delete(k.left, uid)
		}
	}
}

// next returns a pod to connect to; nil if there is none, or if there are n connections. While
// launches take connections, and half of them are left, it lets the launches have the
// processors.
func (k *keeper) next(waiting map[types.UID]*corev1.Pod, n int) *corev1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	if busy := time.Since(k.taken) < keepPause && len(k.conns) > n/2; busy || len(k.conns) >= n {
		return nil
	}
	var pods []*corev1.Pod
	for uid, pod := range waiting {
		if k.conns[uid].warmConn == nil && !k.left[uid] && !k.silent.has(uid) {
			pods = append(pods, pod)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	return pods[rand.IntN(len(pods))] // other hosts choose, too
}

// connect adds a connection.
func (k *keeper) connect(ctx context.Context, pod *corev1.Pod) {
	soon, cancel := context.WithTimeout(ctx, warmPatience)
	defer cancel()
	conn, err := k.dialWarm(soon, pod)
	switch {
	case err == nil:
		k.put(pod.UID, conn)
		k.log.Debug("connected to a pod that waits", "pool", k.pool, "pod", pod.Name)
	case ctx.Err() == nil:
		k.log.Warn("cannot connect to a pod of the pool", "pool", k.pool, "pod", pod.Name, "error", err)
		k.silent.add(pod.UID)
	}
}

func (k *keeper) put(uid types.UID, conn *warmConn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns[uid] = keptConn{conn, time.Now()}
}

// checkOldest asks the agent that has not answered for longest, if that is long, and drops the
// connection if it does not answer now. A connection without calls would end unnoticed. It
// reports whether it asked.
func (k *keeper) checkOldest(ctx context.Context) bool {
	k.mu.Lock()
	var oldest types.UID
	for uid, conn := range k.conns {
		if time.Since(conn.answered) > keepCheck && (oldest == "" || conn.answered.Before(k.conns[oldest].answered)) {
			oldest = uid
		}
	}
	conn := k.conns[oldest].warmConn
	delete(k.conns, oldest) // nobody takes it meanwhile
	k.mu.Unlock()
	if conn == nil {
		return false
	}
	soon, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	if conn.ask(soon) == nil {
		k.put(oldest, conn)
	}
	return true
}

// take returns the connection to a pod, which is then the caller's; nil if there is none.
func (k *keeper) take(uid types.UID) *warmConn {
	k.mu.Lock()
	defer k.mu.Unlock()
	conn := k.conns[uid].warmConn
	if conn != nil {
		delete(k.conns, uid)
		k.left[uid], k.taken = true, time.Now()
	}
	return conn
}

// end closes the connections. The keeper must make no more.
func (k *keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, conn := range k.conns {
		conn.close()
	}
	clear(k.conns)
}

// keepers are those of a cluster.
type keepers struct {
	mu   sync.Mutex
	list []*keeper
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
		for _, object := range k.watch.GetStore().List() {
			pods = append(pods, *object.(*corev1.Pod))
		}
		return pods, true
	}
	return nil, false
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

// silentPods are pods that wait and whose agents did not answer. They are left alone for some
// time.
type silentPods struct {
	mu    sync.Mutex
	until map[types.UID]time.Time
}

func (s *silentPods) add(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[types.UID]time.Time{}
	}
	s.until[uid] = time.Now().Add(silentTime)
}

func (s *silentPods) has(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, until := range s.until {
		if time.Now().After(until) {
			delete(s.until, uid)
		}
	}
	_, silent := s.until[uid]
	return silent
}
