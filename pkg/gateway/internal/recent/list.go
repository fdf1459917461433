package recent

import (
	"container/list"
	"iter"
)

// List keeps the newest of what it is given, each under a key of its own, within a size.
type List[K comparable, V any] struct {
	order   *list.List // of *item, the newest first
	byKey   map[K]*list.Element
	size    int
	omitted int64
}

type item[K comparable, V any] struct {
	key   K
	value V
	size  int
}

// Put adds a value as the newest one, in place of that of its key, and lets the oldest go for which there is no
// room. Size is that of the value's texts, in bytes, and most that of the list. It returns by how much the list
// has grown, which may be less than 0.
func (l *List[K, V]) Put(key K, value V, size, most int) (grown int) {
	if l.byKey == nil {
		l.order, l.byKey = list.New(), map[K]*list.Element{}
	}
	before := l.size
	l.remove(key)
	l.byKey[key] = l.order.PushFront(&item[K, V]{key, value, size + valueSize})
	l.size += size + valueSize
	for l.size > most && l.order.Len() > 1 {
		l.remove(l.order.Back().Value.(*item[K, V]).key)
		l.omitted++
	}
	return l.size - before
}

func (l *List[K, V]) remove(key K) {
	if e, ok := l.byKey[key]; ok {
		delete(l.byKey, key)
		l.size -= l.order.Remove(e).(*item[K, V]).size
	}
}

// Get returns the value of a key, if the list has it.
func (l *List[K, V]) Get(key K) (value V, ok bool) {
	if e, there := l.byKey[key]; there {
		return e.Value.(*item[K, V]).value, true
	}
	return value, false
}

// Set replaces the value of a key that the list has, by one of the same size. It does not become newer.
func (l *List[K, V]) Set(key K, value V) {
	if e, there := l.byKey[key]; there {
		e.Value.(*item[K, V]).value = value
	}
}

// Omitted is how many values were let go.
func (l *List[K, V]) Omitted() int64 { return l.omitted }

// All returns the values, the newest first.
func (l *List[K, V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		if l.order == nil {
			return
		}
		for e := l.order.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(*item[K, V]).value) {
				return
			}
		}
	}
}
