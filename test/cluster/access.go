package cluster

import (
	"context"
	"fmt"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenSeconds is how long a service account's token is good for: a day, longer
// than any test and most demos.
const tokenSeconds = int64(24 * 60 * 60)

// WriteKubeconfig writes the access that config gives to the file at path.
func (c *Cluster) WriteKubeconfig(path string, config *rest.Config) error {
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["kiln"] = &clientcmdapi.Cluster{
		Server:                   config.Host,
		CertificateAuthorityData: config.CAData,
	}
	kubeconfig.AuthInfos["user"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
	}
	kubeconfig.Contexts["kiln"] = &clientcmdapi.Context{Cluster: "kiln", AuthInfo: "user"}
	kubeconfig.CurrentContext = "kiln"
	return clientcmd.WriteToFile(*kubeconfig, path)
}

// ServiceAccountConfig returns the access of a service account, and the path of
// a kubeconfig file with the same. It creates the account and its namespace if
// they are absent; what the account may do is for RBAC objects to say.
func (c *Cluster) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, string, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, "", err
	}
	meta := metav1.ObjectMeta{Name: namespace}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, "", fmt.Errorf("namespace %s: %w", namespace, err)
	}
	accounts := client.CoreV1().ServiceAccounts(namespace)
	meta = metav1.ObjectMeta{Name: name}
	_, err = accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, "", fmt.Errorf("service account %s/%s: %w", namespace, name, err)
	}
	seconds := tokenSeconds
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("token of %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = token.Status.Token
	path := filepath.Join(c.Dir, "kubeconfig-"+namespace+"-"+name)
	return config, path, c.WriteKubeconfig(path, config)
}
