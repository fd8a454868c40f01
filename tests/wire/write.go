// Writes the samples beside it, with the API's own encoder: every field that the API has, and so
// also those that a proxy does not read. In a module that requires k8s.io/api, k8s.io/apimachinery
// at v0.36.3: `go run write.go DIRECTORY`.
//
//go:build ignore

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func p[T any](v T) *T { return &v }

func meta(name, ns string) metav1.ObjectMeta {
	t := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return metav1.ObjectMeta{
		Name: name, Namespace: ns, GenerateName: "cart-", UID: "5b0c4f0e-0e7e-4a52-9d0a-0f5f0d6c2b11",
		ResourceVersion: "184467", Generation: 7, CreationTimestamp: t, DeletionTimestamp: &t, DeletionGracePeriodSeconds: p(int64(30)),
		Labels:      map[string]string{"kubernetes.io/service-name": "cart", "topology.kubernetes.io/zone": "zone-a", "empty": ""},
		Annotations: map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T03:04:05Z"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "cart", UID: "u", Controller: p(true)}},
		Finalizers:      []string{"service.kubernetes.io/load-balancer-cleanup"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &t,
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{".":{},"f:kubernetes.io/service-name":{}}},"f:spec":{"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{},"f:targetPort":{}}}}}`)}}},
	}
}

func main() {
	scheme := runtime.NewScheme()
	corev1.AddToScheme(scheme)
	discoveryv1.AddToScheme(scheme)
	s := protobuf.NewSerializer(scheme, scheme)
	tm := func(k, v string) metav1.TypeMeta { return metav1.TypeMeta{Kind: k, APIVersion: v} }
	single := corev1.IPFamilyPolicyRequireDualStack
	local := corev1.ServiceInternalTrafficPolicyLocal
	svc := &corev1.Service{TypeMeta: tm("Service", "v1"), ObjectMeta: meta("cart", "shop"),
		Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: "TCP", AppProtocol: p("http"), Port: 80, TargetPort: intstr.FromString("web"), NodePort: 30080},
				{Name: "dns", Protocol: "UDP", Port: 53, TargetPort: intstr.FromInt32(5353)},
			},
			Selector: map[string]string{"app": "cart"}, ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7", "fd00:10:96::7"}, Type: "LoadBalancer",
			ExternalIPs: []string{"192.0.2.1", "2001:db8::1"}, SessionAffinity: "ClientIP", LoadBalancerIP: "192.0.2.9",
			LoadBalancerSourceRanges: []string{"198.51.100.0/24"}, ExternalName: "x.example", ExternalTrafficPolicy: "Local", HealthCheckNodePort: 31999,
			PublishNotReadyAddresses: true, SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: p(int32(600))}},
			IPFamilies: []corev1.IPFamily{"IPv4", "IPv6"}, IPFamilyPolicy: &single, AllocateLoadBalancerNodePorts: p(true), LoadBalancerClass: p("c"),
			InternalTrafficPolicy: &local, TrafficDistribution: p("PreferSameZone"),
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
			{IP: "203.0.113.1", IPMode: p(corev1.LoadBalancerIPModeProxy), Ports: []corev1.PortStatus{{Port: 80, Protocol: "TCP"}}},
			{Hostname: "lb.example"}}},
			Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "r"}}},
	}
	slice := &discoveryv1.EndpointSlice{TypeMeta: tm("EndpointSlice", "discovery.k8s.io/v1"), ObjectMeta: meta("cart-x1", "shop"), AddressType: "IPv4",
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.244.1.7", "10.244.1.8"}, Conditions: discoveryv1.EndpointConditions{Ready: p(true), Serving: p(true), Terminating: p(false)},
				Hostname: p("cart-0"), TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "cart-0", UID: "u"}, NodeName: p("node-a"), Zone: p("zone-a"),
				Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "zone-a"}, {Name: "zone-b"}}, ForNodes: []discoveryv1.ForNode{{Name: "node-a"}}}},
			{Addresses: []string{"10.244.2.7"}, Conditions: discoveryv1.EndpointConditions{Ready: p(false), Terminating: p(true)}, DeprecatedTopology: map[string]string{"a": "b"}},
			{Addresses: []string{"10.244.3.7"}},
		},
		Ports: []discoveryv1.EndpointPort{{Name: p("http"), Protocol: p(corev1.ProtocolTCP), Port: p(int32(8080)), AppProtocol: p("http")}, {Name: p("")}, {Port: p(int32(0))}},
	}
	t := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	node := &corev1.Node{TypeMeta: tm("Node", "v1"), ObjectMeta: meta("node-a", ""),
		Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24", "fd00:10:244:1::/64"}, ProviderID: "kind://a", Unschedulable: true,
			Taints: []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: "NoSchedule", TimeAdded: &t}}},
		Status: corev1.NodeStatus{Phase: "Running", Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True", Reason: "KubeletReady"}},
			Addresses: []corev1.NodeAddress{{Type: "InternalIP", Address: "192.168.0.2"}, {Type: "ExternalIP", Address: "2001:db8::2"}, {Type: "Hostname", Address: "node-a"}},
			NodeInfo:  corev1.NodeSystemInfo{KernelVersion: "6.18"}, Images: []corev1.ContainerImage{{Names: []string{"registry.example/pause:3.10"}, SizeBytes: 268403}}},
	}
	bare := &corev1.Service{TypeMeta: tm("Service", "v1"), ObjectMeta: metav1.ObjectMeta{Name: "bare", Namespace: "shop"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	out := os.Args[1] + "/"
	enc := func(o runtime.Object, gvk schema.GroupVersionKind) []byte {
		var b bytes.Buffer
		if err := s.Encode(o, &b); err != nil {
			panic(err)
		}
		return b.Bytes()
	}
	for name, o := range map[string]runtime.Object{"service": svc, "endpoint-slice": slice, "node": node, "bare-service": bare} {
		b := enc(o, schema.GroupVersionKind{})
		os.WriteFile(out+name+".protobuf", b, 0o644)
		j, err := json.MarshalIndent(o, "", "  ")
		if err != nil {
			panic(err)
		}
		os.WriteFile(out+name+".json", append(j, '\n'), 0o644)
	}
	// One list and one stream of a watch.
	list := &corev1.ServiceList{TypeMeta: tm("ServiceList", "v1"), ListMeta: metav1.ListMeta{ResourceVersion: "184470", Continue: "next", RemainingItemCount: p(int64(3))}, Items: []corev1.Service{*svc, *bare}}
	os.WriteFile(out+"service-list.protobuf", enc(list, schema.GroupVersionKind{}), 0o644)
	raw := protobuf.NewRawSerializer(scheme, scheme)
	var stream bytes.Buffer
	fw := protobuf.LengthDelimitedFramer.NewFrameWriter(&stream)
	event := func(kind string, o runtime.Object) {
		e := &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: enc(o, schema.GroupVersionKind{})}}
		var b bytes.Buffer
		if err := raw.Encode(e, &b); err != nil {
			panic(err)
		}
		fw.Write(b.Bytes())
	}
	event("ADDED", svc)
	event("BOOKMARK", &corev1.Service{TypeMeta: tm("Service", "v1"), ObjectMeta: metav1.ObjectMeta{ResourceVersion: "184470", Annotations: map[string]string{"k8s.io/initial-events-end": "true"}}})
	event("DELETED", bare)
	event("ERROR", &metav1.Status{TypeMeta: tm("Status", "v1"), Status: "Failure", Message: "too old resource version", Reason: "Expired", Code: 410})
	os.WriteFile(out+"watch.protobuf", stream.Bytes(), 0o644)
}
