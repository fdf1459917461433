package launcher

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// This file compares the pod that a fork would get with the pod of its sandbox, so that nobody gets more by a fork than
// that has. It compares them as JSON, so that no field is forgotten. What admission adds is no concern, such as
// containers and volumes: the fork does not ask for it. All else counts: a field that the fork's pod lacks may be what
// confines the other one.

// defaulted are the fields that the cluster sets where they are missing, and that confine nothing. What is below them
// may have more fields, too.
var defaulted = map[string]bool{
	"apiVersion": true, "creationTimestamp": true, "defaultMode": true, "dnsConfig": true, "dnsPolicy": true,
	"expirationSeconds": true, "imagePullPolicy": true, "lifecycle": true, "livenessProbe": true, "nodeName": true,
	"overhead": true, "preemptionPolicy": true, "priority": true, "priorityClassName": true, "protocol": true,
	"pullPolicy": true, "readinessProbe": true, "requests": true, "schedulerName": true, "seLinuxOptions": true,
	"serviceAccount": true, "startupProbe": true, "terminationMessagePath": true, "terminationMessagePolicy": true,
	"volumeMode": true,
	// These give a pod more, so that one without them asks for less.
	"hostIPC": true, "hostNetwork": true, "hostPID": true, "shareProcessNamespace": true,
}

// added are the lists to which the cluster and admission add elements.
var added = map[string]bool{
	"containers": true, "env": true, "envFrom": true, "ephemeralContainers": true, "hostAliases": true,
	"imagePullSecrets": true, "initContainers": true, "ports": true, "resizePolicy": true, "schedulingGates": true,
	"tolerations": true, "volumeDevices": true, "volumeMounts": true, "volumes": true,
}

// confining are the settings of the agent that say what commands may do.
var confining = []string{"PODAGENT_CONFINE", "PODAGENT_EGRESS", "PODAGENT_EGRESS_REQUIRE"}

// beyond says what a pod that is not yet made asks for beyond one that is there; empty if nothing. It does not compare
// what every sandbox has of its own: its workspace, its times, and the agent's settings, but those that confine. Nor does
// it miss a node selector that its RuntimeClass adds to both pods.
func beyond(asked, there *corev1.Pod, ofClass map[string]string) string {
	asked, there = asked.DeepCopy(), there.DeepCopy()
	ownWorkspace := !slices.ContainsFunc(asked.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == workspaceName && v.EmptyDir == nil &&
			(v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != podmeta.NameOf(asked.Annotations[podmeta.AnnotationID]))
	})
	dropOwn(asked)
	dropOwn(there)
	if ownWorkspace {
		dropWorkspace(asked, there)
	}
	maps.DeleteFunc(there.Spec.NodeSelector, func(name, value string) bool {
		_, named := asked.Spec.NodeSelector[name]
		added, ok := ofClass[name]
		return !named && ok && added == value
	})
	d := &difference{}
	d.compareNotes("metadata.labels", asked.Labels, there.Labels)
	d.compareNotes("metadata.annotations", asked.Annotations, there.Annotations)
	d.compare("spec", treeOf(&asked.Spec), treeOf(&there.Spec), false)
	return d.text
}

// dropOwn removes what every sandbox has of its own from a pod.
func dropOwn(pod *corev1.Pod) {
	s := &pod.Spec
	s.ServiceAccountName = cmp.Or(s.ServiceAccountName, "default")
	s.RestartPolicy, s.ActiveDeadlineSeconds = "", nil
	if agent := agentContainer(pod); agent != nil {
		agent.RestartPolicy = nil
		agent.Env = slices.DeleteFunc(agent.Env, func(v corev1.EnvVar) bool {
			return strings.HasPrefix(v.Name, agentVariables) && !slices.Contains(confining, v.Name)
		})
		for _, name := range confining { // more elements of a list count as less, and here they may not
			if variable(agent.Env, name).Name == "" {
				agent.Env = append(agent.Env, corev1.EnvVar{Name: name})
			}
		}
	}
}

// dropWorkspace removes from a pod that is asked for what the launcher itself makes for its workspace. What a patch mounts
// of it elsewhere stays: it may put what commands write where other programs are found.
func dropWorkspace(asked, there *corev1.Pod) {
	asked.Spec.Volumes = slices.DeleteFunc(asked.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == workspaceName })
	if agent := agentContainer(asked); agent != nil {
		agent.VolumeMounts = slices.DeleteFunc(agent.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == workspaceName && (m.MountPath == agent.WorkingDir || m.MountPath == storeAt)
		})
	}
	isFill := func(c corev1.Container) bool { return c.Name == fillName }
	if agent := agentContainer(there); agent != nil && !slices.ContainsFunc(there.Spec.InitContainers, isFill) {
		// The claim of an owned workspace may have its directory already, and its pod nothing that makes it.
		fill := fillContainer(agent, nil)
		fill.Command = []string{programOf(there), "copy"}
		there.Spec.InitContainers = append(there.Spec.InitContainers, fill)
	}
	makeNoOwned(&asked.Spec)
	makeNoOwned(&there.Spec)
}

func treeOf(spec *corev1.PodSpec) (tree any) {
	data, _ := json.Marshal(spec) // cannot fail
	_ = json.Unmarshal(data, &tree)
	return tree
}

// difference is the first one that a comparison has met.
type difference struct{ text string }

func (d *difference) asks(path string, value any) {
	what := path
	switch value.(type) {
	case string, bool, float64:
		if !strings.HasSuffix(path, ".value") { // it may be a secret, as arguments may
			what = fmt.Sprintf("%s %#v", path, value)
		}
	}
	d.text = cmp.Or(d.text, "asks for "+what+", which the pod lacks")
}

func (d *difference) lacks(path string) {
	d.text = cmp.Or(d.text, "does without "+path+", which the pod has")
}

// compareNotes compares labels or annotations that are not the launcher's.
func (d *difference) compareNotes(path string, asked, there map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if value, ok := there[name]; !strings.HasPrefix(name, podmeta.Prefix) && (!ok || value != asked[name]) {
			d.asks(path+"["+name+"]", asked[name])
		}
	}
}

// compare compares values of a field. Lenient means that there may be more fields.
func (d *difference) compare(path string, asked, there any, lenient bool) {
	fields, areFields := asked.(map[string]any)
	list, isList := asked.([]any)
	moreFields, haveFields := there.(map[string]any)
	moreList, haveList := there.([]any)
	switch {
	case areFields || asked == nil && haveFields:
		d.compareFields(path, fields, moreFields, lenient)
	case isList || asked == nil && haveList:
		d.compareLists(path, list, moreList, lenient)
	case asked == nil:
		if !lenient && there != nil && there != "" {
			d.lacks(path)
		}
	case asked != there:
		d.asks(path, asked)
	}
}

func (d *difference) compareFields(path string, asked, there map[string]any, lenient bool) {
	names := slices.Concat(slices.Collect(maps.Keys(asked)), slices.Collect(maps.Keys(there)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		d.compare(path+"."+name, asked[name], there[name], lenient || defaulted[name])
	}
}

// compareLists finds each element that is asked for in the other list. Elements without fields, such as those of a
// command, must be the same.
func (d *difference) compareLists(path string, asked, there []any, lenient bool) {
	for _, element := range asked {
		fields, ok := element.(map[string]any)
		if !ok {
			if !reflect.DeepEqual(asked, there) {
				d.asks(path, asked)
			}
			return
		}
		d.find(path, fields, there, lenient)
	}
	if len(there) > len(asked) && !lenient && !added[path[strings.LastIndexByte(path, '.')+1:]] {
		d.lacks(path)
	}
}

// find looks for an element in a list: the one of its name, if it has a name, or else any.
func (d *difference) find(path string, element map[string]any, there []any, lenient bool) {
	name := nameIn(element)
	if name != "" {
		path += "[" + name + "]"
	}
	for _, other := range there {
		fields, _ := other.(map[string]any)
		var here difference
		here.compare(path, element, fields, lenient)
		switch {
		case here.text == "":
			return
		case name != "" && nameIn(fields) == name:
			d.text = cmp.Or(d.text, here.text)
			return
		}
	}
	d.asks(path, element)
}

// nameIn returns by what an element of a list is known in it; empty if it has no name.
func nameIn(element map[string]any) string {
	for _, field := range []string{"mountPath", "devicePath", "name"} {
		if name, ok := element[field].(string); ok {
			return name
		}
	}
	return ""
}
