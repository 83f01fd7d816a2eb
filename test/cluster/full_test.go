package cluster_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

var (
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// A cluster of all six components does what sandboxes need of one.
func TestEverything(t *testing.T) {
	temp := ownTemp(t)
	c, err := cluster.Start(t.Context(), cluster.Options{
		CRDs: true, Manager: true, Scheduler: true, Nodes: 2, Progress: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(c.Config)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	t.Run("in it", func(t *testing.T) {
		for name, test := range map[string]func(context.Context, *testing.T, *cluster.Cluster, kubernetes.Interface){
			"a pod is scheduled and runs":                  podRuns,
			"what an owner leaves is collected":            dependentGoes,
			"a namespace goes with all in it":              namespaceGoes,
			"a service account has the rights it is given": accountIsBound,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(ctx, t, c, client)
			})
		}
	})
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, temp)
}

func podRuns(ctx context.Context, t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	begun := time.Now()
	create(ctx, t, client, pod("default", "plain"))
	await(ctx, t, c, pods, "default", "plain", cluster.True("Ready"))
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("Ready after %s", took)
	}
	p, err := client.CoreV1().Pods("default").Get(ctx, "plain", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Status.Phase != corev1.PodRunning || !strings.HasPrefix(p.Status.PodIP, "10.128.") || len(p.Status.PodIPs) != 1 {
		t.Errorf("phase %q, IP %q of %v", p.Status.Phase, p.Status.PodIP, p.Status.PodIPs)
	}
	for _, condition := range p.Status.Conditions {
		if condition.Status != corev1.ConditionTrue || condition.Reason != "" || condition.Message != "" {
			t.Errorf("condition %+v", condition)
		}
	}
	t.Logf("Ready after %s", time.Since(begun).Round(time.Millisecond))
}

func dependentGoes(ctx context.Context, t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	owner, err := client.CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := pod("default", "owned")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	create(ctx, t, client, owned)
	await(ctx, t, c, pods, "default", "owned", cluster.True("Ready"))
	begun := time.Now()
	if err := client.CoreV1().ConfigMaps("default").Delete(ctx, "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, c, pods, "default", "owned", cluster.Gone)
	t.Logf("collected after %s", time.Since(begun).Round(time.Millisecond))
}

func namespaceGoes(ctx context.Context, t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	if err := c.Apply(ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: brief}}")); err != nil {
		t.Fatal(err)
	}
	create(ctx, t, client, pod("brief", "a"))
	await(ctx, t, c, pods, "brief", "a", cluster.True("Ready"))
	if err := client.CoreV1().Namespaces().Delete(ctx, "brief", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, c, namespaces, "", "brief", cluster.Gone)
}

func accountIsBound(ctx context.Context, t *testing.T, c *cluster.Cluster, _ kubernetes.Interface) {
	config, _, err := c.ServiceAccountConfig(ctx, "elsewhere", "robot")
	if err != nil {
		t.Fatal(err)
	}
	robot := kubernetes.NewForConfigOrDie(config)
	if _, err := robot.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("a service account without rights reads pods")
	}
	if err := c.Apply(ctx, []byte(robotReads)); err != nil {
		t.Fatal(err)
	}
	for range 50 { // the authoriser sees a new binding through its own watch
		if _, err = robot.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("with rights: %v", err)
}

const robotReads = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: robot}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: robot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: robot}
subjects: [{kind: ServiceAccount, namespace: elsewhere, name: robot}]
`

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
}

func create(ctx context.Context, t *testing.T, client kubernetes.Interface, p *corev1.Pod) {
	t.Helper()
	if _, err := client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func await(ctx context.Context, t *testing.T, c *cluster.Cluster, kind schema.GroupVersionResource, namespace, name string, condition cluster.Condition) {
	t.Helper()
	if err := c.Await(ctx, kind, namespace, name, condition); err != nil {
		t.Fatal(err)
	}
}
