package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	// gather is how long changes are gathered before they are put in force together.
	gather = 20 * time.Millisecond
	// again is when rules that could not be put in force are tried again.
	again = time.Second
)

// enforcer keeps a filter as the cluster's policies say.
type enforcer struct {
	filter                     filter
	policies, pods, namespaces cache.SharedInformer
	// changed holds a value after a change that is not in force yet.
	changed chan struct{}

	mu    sync.Mutex
	last  *rules // in force; nil before the first
	fault error  // why later ones are not
}

// newEnforcer returns an enforcer that does not run yet.
func newEnforcer(f filter, config *rest.Config) (*enforcer, error) {
	e := &enforcer{filter: f, changed: make(chan struct{}, 1), fault: errors.New("the objects are not known yet")}
	var errs [3]error
	e.policies, errs[0] = e.watch(config, networkingv1.SchemeGroupVersion, "networkpolicies", &networkingv1.NetworkPolicy{})
	e.pods, errs[1] = e.watch(config, corev1.SchemeGroupVersion, "pods", &corev1.Pod{})
	e.namespaces, errs[2] = e.watch(config, corev1.SchemeGroupVersion, "namespaces", &corev1.Namespace{})
	return e, errors.Join(errs[:]...)
}

// watch returns what keeps the cluster's objects of a kind. It is made of client-go's
// parts: its clients of all kinds would take a minute to compile.
func (e *enforcer) watch(config *rest.Config, version schema.GroupVersion, resource string, kind runtime.Object) (cache.SharedInformer, error) {
	known := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(known), networkingv1.AddToScheme(known)); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	all := cache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, fields.Everything())
	informer := cache.NewSharedInformer(all, kind, 0)
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { e.change() }, UpdateFunc: func(any, any) { e.change() }, DeleteFunc: func(any) { e.change() },
	})
	return informer, errors.Join(err, informer.SetTransform(slim))
}

// slim drops what policies are not about from the objects that an enforcer keeps.
func slim(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetManagedFields(nil)
		o.SetAnnotations(nil)
	}
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Spec.Volumes = nil
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i, c := range containers {
				containers[i] = corev1.Container{Ports: c.Ports}
			}
		}
	}
	return object, nil
}

// change notes that something has changed.
func (e *enforcer) change() {
	select {
	case e.changed <- struct{}{}:
	default: // noted already
	}
}

// run puts each change in force until the context ends. Rules stay in force after
// that, and until the first ones of the next enforcer.
func (e *enforcer) run(ctx context.Context) {
	for _, informer := range []cache.SharedInformer{e.policies, e.pods, e.namespaces} {
		go informer.Run(ctx.Done())
	}
	cache.WaitForCacheSync(ctx.Done(), e.policies.HasSynced, e.pods.HasSynced, e.namespaces.HasSynced)
	for e.change(); ; {
		select {
		case <-ctx.Done():
			return
		case <-e.changed:
		}
		time.Sleep(gather)
		if err := e.enforce(); err != nil {
			slog.Error("cannot put policies in force", "error", err)
			time.AfterFunc(again, e.change)
		}
	}
}

// enforce puts the current objects' rules in force, unless they are already.
func (e *enforcer) enforce() error {
	o := objects{
		policies:   list[*networkingv1.NetworkPolicy](e.policies),
		pods:       list[*corev1.Pod](e.pods),
		namespaces: list[*corev1.Namespace](e.namespaces),
	}
	r := o.rules()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fault == nil && reflect.DeepEqual(r, *e.last) {
		return nil
	}
	if e.fault = e.filter.replace(r); e.fault != nil {
		return e.fault
	}
	e.last = &r
	slog.Info("policies are in force", "policies", len(o.policies), "ingress", len(r.ingress), "egress", len(r.egress))
	return nil
}

// list returns the objects that were seen last, by namespace and name.
func list[O metav1.Object](of cache.SharedInformer) (objects []O) {
	for _, object := range of.GetStore().List() {
		objects = append(objects, object.(O))
	}
	slices.SortFunc(objects, func(a, b O) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return objects
}

// check returns nil if the last change is in force, and otherwise the reason.
func (e *enforcer) check() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fault != nil {
		return e.fault
	}
	if err := e.filter.check(); err != nil {
		return fmt.Errorf("the table %s is gone: %w", e.filter.table, err)
	}
	return nil
}
