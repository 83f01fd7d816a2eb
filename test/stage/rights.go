package stage

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kiln-sandbox/kiln/test/cluster"
)

// The places that a right is for.
const (
	Watched = "watched"
	Wide    = "cluster"
	AtHome  = "home"
	// Beside is at home as well, and only for who watches a few other namespaces.
	Beside = "beside"
	// Guard is cluster-wide, and only for who serves the metrics securely.
	Guard = "metrics"
)

// A Right is something that the controller may do, as the chart says.
type Right struct {
	Why, Where string
	// Extensions: only claims, pools and templates need it.
	Extensions bool
	Rule       rbacv1.PolicyRule
}

// Rights are all rights that the chart gives the controller.
func Rights() (all []Right, err error) {
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "helm", "kiln", "files", "rights.yaml"))
	if err != nil {
		return nil, err
	}
	return all, yaml.UnmarshalStrict(text, &all)
}

// Roles are the objects that give rights to the controller, in the names that the
// chart has for them.
func Roles(rights []Right) []any {
	var wide, home, guard []rbacv1.PolicyRule
	for _, r := range rights {
		switch r.Where {
		case AtHome:
			home = append(home, r.Rule)
		case Beside: // the rights on all namespaces have it
		case Guard:
			guard = append(guard, r.Rule)
		default:
			wide = append(wide, r.Rule)
		}
	}
	const guards = Account + "-metrics-auth"
	meta, ofGuard := metav1.ObjectMeta{Name: Account}, metav1.ObjectMeta{Name: guards}
	atHome := metav1.ObjectMeta{Name: Account, Namespace: Home}
	refer := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: Account, Namespace: Home}}
	named := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	return []any{
		rbacv1.ClusterRole{TypeMeta: named("ClusterRole"), ObjectMeta: meta, Rules: wide},
		rbacv1.ClusterRoleBinding{TypeMeta: named("ClusterRoleBinding"), ObjectMeta: meta, RoleRef: refer("ClusterRole", Account), Subjects: subjects},
		rbacv1.ClusterRole{TypeMeta: named("ClusterRole"), ObjectMeta: ofGuard, Rules: guard},
		rbacv1.ClusterRoleBinding{TypeMeta: named("ClusterRoleBinding"), ObjectMeta: ofGuard, RoleRef: refer("ClusterRole", guards), Subjects: subjects},
		rbacv1.Role{TypeMeta: named("Role"), ObjectMeta: atHome, Rules: home},
		rbacv1.RoleBinding{TypeMeta: named("RoleBinding"), ObjectMeta: atHome, RoleRef: refer("Role", Account), Subjects: subjects},
	}
}

// Give gives the controller these rights and no others, and returns when the API
// server knows of it. Its account exists.
func Give(ctx context.Context, c *cluster.Cluster, account *rest.Config, rights []Right) error {
	var manifest bytes.Buffer
	for _, o := range Roles(rights) {
		text, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		fmt.Fprintf(&manifest, "---\n%s", text)
	}
	if err := c.Apply(ctx, manifest.Bytes()); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(account)
	if err != nil {
		return err
	}
	every, err := Rights()
	if err != nil {
		return err
	}
	for _, one := range every {
		if one.Where == Beside {
			continue
		}
		want := slices.ContainsFunc(rights, func(r Right) bool { return r.Why == one.Why })
		if err := await(ctx, client, one, want); err != nil {
			return fmt.Errorf("%s of %s: %w", one.Rule.Verbs[0], one.Rule.Resources[0], err)
		}
	}
	return nil
}

// await returns when the API server allows what a right is for, or when it does not.
func await(ctx context.Context, account kubernetes.Interface, r Right, want bool) error {
	asks := &authorizationv1.ResourceAttributes{Verb: r.Rule.Verbs[0], Group: r.Rule.APIGroups[0]}
	asks.Resource, asks.Subresource, _ = strings.Cut(r.Rule.Resources[0], "/")
	if r.Where == AtHome {
		asks.Namespace = Home
	}
	if len(r.Rule.ResourceNames) > 0 {
		asks.Name = r.Rule.ResourceNames[0]
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: asks}}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		answer, err := account.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed == want, err
	})
}
