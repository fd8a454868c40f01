//! Settings that decide the content of rules: their objects, and how these are rendered.

use super::kind::SettingKind::{
    Bool, FilledText, Gates, Int, List, NodeName, Number, OneOf, OnePath, Switch, Text, Word,
};
use super::setting::{Setting, SettingSection};
use super::words::{BACKENDS, SERVICE_DISPATCHES, texts};
use crate::config::kube_proxy::DEFAULT_SERVICE_DISPATCH;

/// Source of Services, EndpointSlices and the Node, for every command that reads objects.
pub(in crate::config) const SOURCE: SettingSection = SettingSection {
    heading: Some("Source"),
    settings: &[
        Setting::new("clientConnection.kubeconfig", "kubeconfig", Text("FILE"))
            .help("Kubeconfig for the API server")
            .more("Without a source, the service account of the Pod is used.")
            .conflicts_with("manifests")
            .in_short_help(),
        Setting::flag("master", Text("URL"))
            .help("URL of the API server; overrides the kubeconfig")
            .conflicts_with("manifests"),
        Setting::field("clientConnection.acceptContentTypes", Text("TYPE")),
        Setting::new(
            "clientConnection.contentType",
            "kube-api-content-type",
            Text("TYPE"),
        )
        .default("application/vnd.kubernetes.protobuf")
        .help(
            "Content type of API responses, application/json or \
             application/vnd.kubernetes.protobuf",
        ),
        Setting::new("clientConnection.qps", "kube-api-qps", Number)
            .default("5")
            .help("API requests per second; no limit if negative"),
        Setting::new("clientConnection.burst", "kube-api-burst", Int("COUNT"))
            .default("10")
            .help("API requests in a burst"),
        Setting::flag("manifests", OnePath("PATH"))
            .help("Manifests to use instead of a cluster")
            .more("PATH is a file, a folder or `-` for stdin.")
            .in_short_help(),
        Setting::flag("manifests-service-cidr", Text("CIDR[,CIDR]"))
            .default("10.96.0.0/12,fd00:10:96::/112")
            .help(
                "Networks for cluster IPs of Services without one in manifests, one CIDR for each \
                 IP family",
            ),
        Setting::flag("manifests-node-port-range", Text("FIRST-LAST"))
            .default("30000-32767")
            .help("Node ports of Services without one in manifests"),
        Setting::flag("lenient", Switch)
            .requires("manifests")
            .help("Use the valid parts of invalid objects in manifests")
            .more("`run` always does. Other commands report them as errors."),
        Setting::new("hostnameOverride", "hostname-override", NodeName)
            .help("Name of this node [default: the host name]")
            .more("Overrides the name in the file of --config.")
            .in_short_help(),
    ],
};

/// Values of `--detect-local-mode`.
pub(in crate::config) const LOCAL_MODES: &[&str] = &[
    "ClusterCIDR",
    "NodeCIDR",
    "BridgeInterface",
    "InterfaceNamePrefix",
];

/// Settings of rendering, for every command that renders.
pub(in crate::config) const RULES: SettingSection = SettingSection {
    heading: Some("Rules"),
    settings: &[
        Setting::new("mode", "proxy-mode", Text("MODE"))
            .help("Proxy mode; only iptables is supported"),
        Setting::new("clusterCIDR", "cluster-cidr", Text("CIDR[,CIDR]"))
            .help("Pod networks; other traffic to cluster IPs is masqueraded")
            .in_short_help(),
        Setting::new(
            "detectLocalMode",
            "detect-local-mode",
            OneOf("MODE", LOCAL_MODES),
        )
        .help("Detection of traffic from local Pods [default: ClusterCIDR]")
        .more("The modes are ClusterCIDR, NodeCIDR, BridgeInterface and InterfaceNamePrefix.")
        .in_short_help(),
        Setting::new(
            "detectLocal.bridgeInterface",
            "pod-bridge-interface",
            Text("NAME"),
        )
        .help("Bridge interface of the Pods, for --detect-local-mode=BridgeInterface"),
        Setting::new(
            "detectLocal.interfaceNamePrefix",
            "pod-interface-name-prefix",
            Text("PREFIX"),
        )
        .help("Prefix of Pod interface names, for --detect-local-mode=InterfaceNamePrefix"),
        Setting::new("iptables.masqueradeAll", "masquerade-all", Bool)
            .default("false")
            .help("Masquerade all traffic to cluster IPs")
            .in_short_help(),
        Setting::new(
            "iptables.masqueradeBit",
            "iptables-masquerade-bit",
            Int("BIT"),
        )
        .default("14")
        .help("Bit of the packet mark that requests masquerading (0-31)"),
        Setting::new(
            "nodePortAddresses",
            "nodeport-addresses",
            List("CIDR|WORD,..."),
        )
        .help("Node addresses with NodePorts: CIDRs, primary, localhost, all")
        .more(
            "NodePorts accept connections only on node addresses in these networks. The word \
             `primary` selects one address of each family: --bind-address, or the first one of \
             the Node. The word `localhost` means 127.0.0.0/8 and ::1/128, where only IPv4 has \
             NodePorts, and `all` means 0.0.0.0/0 and ::/0. A family without an item has NodePorts \
             on all addresses. [default: all]",
        )
        .in_short_help(),
        Setting::new(
            "iptables.localhostNodePorts",
            "iptables-localhost-nodeports",
            Bool,
        )
        .default("true")
        .help("Accept connections to NodePorts on 127.0.0.1"),
        Setting::new("bindAddress", "bind-address", FilledText("IP"))
            .default("0.0.0.0")
            .help("Primary address of this node; 0.0.0.0 uses that in the Node object")
            .more(
                "--nodeport-addresses=primary selects it, and source ranges of load balancers \
                 that hold it admit the node itself. If it is IPv6, metrics and health addresses \
                 default to IPv6.",
            ),
        Setting::new("featureGates", "feature-gates", Gates)
            .help("Feature gates; only AllowServiceExternalIPs has an effect on rules"),
        Setting::flag("iptables-backend", Word("BACKEND", || texts(BACKENDS)))
            .default("auto")
            .help("Variant of the iptables binaries"),
        Setting::new(
            "deltaproxy.serviceDispatch",
            "service-dispatch",
            Word("MODE", || texts(SERVICE_DISPATCHES)),
        )
        .default(DEFAULT_SERVICE_DISPATCH)
        .flag_default(DEFAULT_SERVICE_DISPATCH)
        .help("Arrangement of the rules that send packets to Services")
        .more("In a tree, first packets traverse few of 50,000 rules."),
    ],
};
