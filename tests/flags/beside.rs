//! Flags and files as a real kube-proxy takes them: both programs are asked to write what they
//! understood, and nothing else happens.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::scene::HEADER;
use crate::support::program::{PROGRAM, Ran};

/// What each of these is refused or taken as, both say alike.
const FLAGS: &[&str] = &[
    "",
    "--bind-address=::",
    "--bind-address=[::]",
    "--bind-address=010.0.0.1",
    "--bind-address=1.2.3",
    "--bind-address=x",
    "--cluster-cidr=010.0.0.0/8",
    "--cluster-cidr=10.0.0.0/8,",
    "--cluster-cidr=10.0.0.0/8,11.0.0.0/8",
    "--cluster-cidr=10.0.0.0/8,fd00::/8",
    "--cluster-cidr=10.0.0.1",
    "--cluster-cidr=x --detect-local-mode=NodeCIDR",
    "--config-sync-period=-1s",
    "--conntrack-max-per-core=-1",
    "--conntrack-min=0x10",
    "--conntrack-tcp-timeout-established=-1s",
    "--conntrack-udp-timeout=300ms",
    "--conntrack-udp-timeout=3000000h",
    "--detect-local-mode=",
    "--detect-local-mode=BridgeInterface",
    "--detect-local-mode=BridgeInterface --pod-bridge-interface=b",
    "--detect-local-mode=nodecidr",
    "--feature-gates=",
    "--feature-gates=AllAlpha",
    "--feature-gates=AllBeta=false --logging-format=json",
    "--feature-gates=AllowServiceExternalIPs=false",
    "--feature-gates=InOrderInformers=false",
    "--feature-gates=InOrderInformers=true",
    "--feature-gates=ResourceHealthStatus=false,ResourceHealthStatusMessage=false",
    "--feature-gates=WorkloadWithJob=true,GenericWorkload=true",
    "--healthz-bind-address=1.2.3.4:0",
    "--healthz-bind-address=1.2.3.4:http",
    "--healthz-bind-address=[::]:1",
    "--healthz-bind-address=localhost:1",
    "--hostname-override=Node-1",
    "--ipvs-scheduler=rr",
    "--ipvs-tcp-timeout=-1s",
    "--iptables-masquerade-bit=010",
    "--iptables-masquerade-bit=0x1f",
    "--iptables-masquerade-bit=32",
    "--iptables-min-sync-period=-1s",
    "--iptables-min-sync-period=.5s",
    "--iptables-min-sync-period=31s",
    "--iptables-sync-period=0",
    "--iptables-sync-period=1",
    "--iptables-sync-period=1m30s",
    "--iptables_sync_period=2h --iptables_min_sync_period=1h",
    "--kube-api-burst=-1",
    "--kube-api-burst=1_000",
    "--kube-api-qps=-1",
    "--kube-api-qps=1e3",
    "--log-flush-frequency=0",
    "--log-json-info-buffer-size=x",
    "--log-text-info-buffer-size=1Ki",
    "--log-text-info-buffer-size=1Ki --feature-gates=LoggingAlphaOptions=true",
    "--log-text-split-stream",
    "--logging-format=json",
    "--logging-format=xml",
    "--masquerade-all true",
    "--masquerade-all=T",
    "--masquerade-all=yes",
    "--metrics-bind-address=:1",
    "--metrics-bind-address=[::1]:7",
    "--nodeport-addresses=10.0.0.0/8 --nodeport-addresses=fd00::/8",
    "--nodeport-addresses=10.0.0.1",
    "--nodeport-addresses=PRIMARY",
    "--nodeport-addresses=all",
    "--nodeport-addresses=localhost",
    "--nodeport-addresses=localhost,10.0.0.0/8,localhost",
    "--nodeport-addresses=primary",
    "--nodeport-addresses=primary,10.0.0.0/8",
    "--nodeport-addresses=primary,localhost,all,10.0.0.0/8,10.0.0.0/8",
    "--nodeport-addresses=primary,primary",
    "--no-such-flag",
    "--oom-score-adj -5",
    "--oom-score-adj=1001",
    "--proxy-mode=iptables",
    "--proxy-mode=userspace",
    "--show-hidden-metrics-for-version=1.35",
    "--show-hidden-metrics-for-version=1.36",
    "--v=-1",
    "--v=010",
    "--version=false",
    "--version=v1.35.0",
    "--version=v1.37.99",
    "--vmodule=a",
    "--vmodule=a=1 --logging-format=json",
    "--vmodule=a=1,b=2",
    "-v 3",
    "extra",
    // Every flag that has a field, each with a value of its own: none sets another's field.
    "--bind-address=10.0.0.9 --bind-address-hard-fail --cluster-cidr=10.4.0.0/14 \
     --config-sync-period=1m --conntrack-max-per-core=1 --conntrack-min=2 \
     --conntrack-tcp-be-liberal --conntrack-tcp-timeout-close-wait=3s \
     --conntrack-tcp-timeout-established=4s --conntrack-udp-timeout=5s \
     --conntrack-udp-timeout-stream=6s --detect-local-mode=BridgeInterface \
     --feature-gates=LoggingAlphaOptions=true --healthz-bind-address=10.0.0.9:7 --hostname-override=n \
     --iptables-localhost-nodeports=false --iptables-masquerade-bit=9 \
     --iptables-min-sync-period=10s --iptables-sync-period=11s --ipvs-exclude-cidrs=10.0.0.0/8 \
     --ipvs-scheduler=s --ipvs-strict-arp --ipvs-tcp-timeout=12s --ipvs-tcpfin-timeout=13s \
     --ipvs-udp-timeout=14s --kube-api-burst=15 --kube-api-content-type=application/json \
     --kube-api-qps=16 --kubeconfig=k --log-flush-frequency=18s --log-json-info-buffer-size=19Ki \
     --log-text-info-buffer-size=20Ki --log-text-split-stream --logging-format=text \
     --masquerade-all --metrics-bind-address=10.0.0.9:8 --nodeport-addresses=10.0.0.0/8 \
     --oom-score-adj=17 --pod-bridge-interface=b --pod-interface-name-prefix=p --profiling \
     --show-hidden-metrics-for-version=1.36 --v=1 --vmodule=a=1",
];

/// The same of files, below their header.
const FILES: &[&str] = &[
    "",
    "OomScoreAdj: 1",
    "bindAddress: '[::]'",
    "bindAddress: fd00::1",
    "clientConnection: {qps: 0, burst: 0}",
    "clientConnection: {burst: '10'}",
    "clusterCIDR: 5",
    "clusterCIDR: x",
    "configSyncPeriod: 0s",
    "conntrack: []",
    "conntrack: null",
    "conntrack: {maxPerCore: null, min: 0}",
    "conntrack: {tcpEstablishedTimeout: null, tcpCloseWaitTimeout: 0s}",
    "conntrack: {udpTimeout: 30}",
    "deltaproxy: {serviceDispatch: tree}",
    "detectLocalMode: Foo",
    "enableProfiling: 'true'",
    "enableProfiling: yes",
    "featureGates: {AllAlpha: 1}",
    "healthzBindAddress: ''",
    "healthzBindAddress: 10.0.0.1",
    "hostnameOverride: 5",
    "iptables: {masqueradeBit: 0, localhostNodePorts: false}",
    "iptables: {syncPeriod: 0s, minSyncPeriod: 2s}",
    "iptables: {syncPeriod: 1s, minSyncPeriod: 2s}",
    "iptables: {syncPeriod: soon}",
    "iptables: {unknown: 1}",
    "logging: {flushFrequency: 0, format: ''}",
    "logging: {format: json}\nfeatureGates: {LoggingBetaOptions: false}",
    "logging: {options: {json: {infoBufferSize: 7}}}",
    "logging: {verbosity: -1}",
    "logging: {vmodule: [{filePattern: a, verbosity: 3}]}",
    "metadata: {name: x}",
    "metricsBindAddress: '::1'",
    "metricsBindAddress: here",
    "mode: 5",
    "nodePortAddresses: ['']",
    "nodePortAddresses: []",
    "nodePortAddresses: [fd00::/8, all, localhost, primary]",
    "nodePortAddresses: [all, all]",
    "nodePortAddresses: primary",
    "oomScoreAdj: '7'",
    "oomScoreAdj: 010",
    "oomScoreAdj: 1.5",
    "oomScoreAdj: 1\noomScoreAdj: 2",
    "oomScoreAdj: 1\n---\noomScoreAdj: 2",
    "oomScoreAdj: 5.0",
    "showHiddenMetricsForVersion: '1.35'",
    "winkernel: {enableDSR: true}",
    "windowsRunAsService: true",
    "{",
];

/// Flags that kube-proxy rejects and deltaproxy accepts, with the reasons.
const ONLY_OURS: &[&str] = &[
    "--cluster-cidr=",                         // The default.
    "--nodeport-addresses=10.0.0.0/8,",        // The same.
    "--healthz-bind-address=0.0.0.0",          // It forgets the port if it writes.
    "--metrics-bind-address=off",              // kube-proxy has no word for it.
    "--iptables-sync-period=500ms",            // The gap is not a second by itself.
    "--feature-gates=NoSuchGate=true",         // A warning.
    "--feature-gates=TopologyAwareHints=true", // A warning.
    "--feature-gates=AtomicFIFO=false",        // Others require it.
    "--feature-gates=AllAlpha=true",           // The release before accepts it.
    "--feature-gates=HostnameOverride=false",  // The same.
    "--feature-gates=GangScheduling=false",    // The same.
];

/// Flags that kube-proxy accepts and deltaproxy rejects, with the reasons.
const ONLY_THEIRS: &[&str] = &[
    "--healthz-bind-address=010.0.0.1:1", // Not an address to listen on.
    "--healthz-port=70000",               // Not a port.
    "--proxy-mode=ipvs",                  // Not our mode.
    "--proxy-mode=nftables",              // The same.
    "--cleanup --init-only",              // They exclude each other.
    // No interface has such a name, so that no rule with it is ever taken.
    "--detect-local-mode=BridgeInterface --pod-bridge-interface=of-sixteen-bytes",
];

/// Both programs, and where they write.
pub struct Both<'a> {
    /// The stock one.
    pub kube_proxy: PathBuf,
    /// Of this test alone.
    pub folder: &'a Path,
}

impl Both<'_> {
    /// All that is alike.
    pub fn agree(&self) {
        for flags in FLAGS {
            self.agree_on(flags, &flags.split_whitespace().collect::<Vec<_>>());
        }
        let file = self.folder.join("config.conf");
        let config = format!("--config={}", file.display());
        for fields in FILES {
            fs::write(&file, format!("{HEADER}{fields}\n")).unwrap();
            self.agree_on(fields, &[&config]);
        }
    }

    /// All that is not.
    pub fn differ(&self) {
        for (all, is_ours) in [(ONLY_OURS, true), (ONLY_THEIRS, false)] {
            for flags in all {
                let typed: Vec<&str> = flags.split_whitespace().collect();
                let [(theirs, _), (ours, _)] = [self.theirs(&typed), self.ours(&typed)];
                assert_eq!(theirs.is_some(), !is_ours, "kube-proxy: {flags}");
                assert_eq!(ours.is_some(), is_ours, "{flags}");
            }
        }
    }

    #[track_caller]
    fn agree_on(&self, what: &str, flags: &[&str]) {
        let ((theirs, why), (ours, why_not)) = (self.theirs(flags), self.ours(flags));
        let [theirs, ours] = [theirs, ours].map(|written| written.map(comparable));
        assert_eq!(ours, theirs, "{what}:\n{why_not}\nkube-proxy says\n{why}");
    }

    fn theirs(&self, flags: &[&str]) -> (Option<Value>, String) {
        self.written(Command::new(&self.kube_proxy).args(flags))
    }

    fn ours(&self, flags: &[&str]) -> (Option<Value>, String) {
        self.written(Command::new(PROGRAM).arg("run").args(flags))
    }

    /// What the program writes of its configuration, if it ends well, and what it says.
    fn written(&self, command: &mut Command) -> (Option<Value>, String) {
        let file = self.folder.join("written.yaml");
        command.arg(format!("--write-config-to={}", file.display()));
        let ran = Ran::of(command);
        // Gone when it is read: the other program's would be taken for that of one that wrote none.
        let written = ran.is_success().then(|| {
            let text = fs::read_to_string(&file).unwrap();
            serde_saphyr::from_str(&text).unwrap()
        });
        let _ = fs::remove_file(&file);
        (written, ran.stderr)
    }
}

/// Leaves out the fields that differ on purpose: the default of `minSyncPeriod`, periods of mode
/// ipvs, which kube-proxy does not write, and our own fields, which it ignores with a warning.
fn comparable(mut written: Value) -> Value {
    let gap = &mut written["iptables"]["minSyncPeriod"];
    if gap == "1s" {
        *gap = "0s".into();
    }
    let ipvs = &mut written["ipvs"];
    (ipvs["syncPeriod"], ipvs["minSyncPeriod"]) = (Value::Null, Value::Null);
    let fields = written.as_object_mut().unwrap();
    fields.remove("deltaproxy");
    written
}
