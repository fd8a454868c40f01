//! Feature gates of kube-proxy v1.36: their names and the values they may have.
//!
//! kube-proxy exits if a gate is unknown to it, so the same gates are accepted here. Only
//! [`EXTERNAL_IPS`] and those of logging have an effect.
//!
//! # Source
//!
//! Upstream: pkg/features/kube_features.go,
//! staging/src/k8s.io/component-base/featuregate/feature_gate.go (v1.36)

use std::collections::BTreeMap;

use super::go;
use crate::telemetry::KUBE_PROXY_MINOR_VERSION;

/// Gate of `spec.externalIPs`, on by default.
pub(super) const EXTERNAL_IPS: &str = "AllowServiceExternalIPs";

/// Gate of logging options in alpha.
pub(super) const LOGGING_ALPHA: &str = "LoggingAlphaOptions";

/// Gate of log format `json`, on by default.
pub(super) const LOGGING_BETA: &str = "LoggingBetaOptions";

/// Switch for all gates in beta.
pub(super) const ALL_BETA: &str = "AllBeta";

/// Switch for all gates in alpha.
pub(super) const ALL_ALPHA: &str = "AllAlpha";

/// Parses one value of `--feature-gates`.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, bool>, String> {
    let pairs = text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("\"{pair}\" is not a valid gate (example: Name=true)"))?;
            let value = go::bool(value.trim())?;
            Ok((name.trim().to_owned(), value))
        })
        .collect()
}

/// Returns the problem of setting a gate to a value, and a hint, which may be empty.
pub(super) fn problem(name: &str, value: bool) -> Option<(String, &'static str)> {
    const REMOVE: &str = "remove the gate";

    let is_in = |list: &str| list.split_whitespace().any(|known| known == name);
    if is_in(SETTABLE) || (is_in(ALWAYS_ON) && value) || (is_in(ALWAYS_OFF) && !value) {
        return None;
    }
    if is_in(ALWAYS_ON) || is_in(ALWAYS_OFF) {
        let problem = format!("feature gate `{name}` must be {}, got {value}", !value);
        return Some((problem, REMOVE));
    }
    if is_in(REMOVED) {
        let problem = format!("feature gate `{name}` was removed: the feature is always on");
        return Some((problem, REMOVE));
    }
    let mut known = [SETTABLE, ALWAYS_ON, ALWAYS_OFF]
        .into_iter()
        .flat_map(str::split_whitespace);
    Some(match known.find(|known| known.eq_ignore_ascii_case(name)) {
        Some(similar) => {
            let problem = format!("unknown feature gate `{name}`; did you mean `{similar}`?");
            (problem, "")
        }
        None => (
            format!(
                "unknown feature gate `{name}`: kube-proxy v{KUBE_PROXY_MINOR_VERSION} does not \
                 have it"
            ),
            REMOVE,
        ),
    })
}

/// Gates that were locked to true and then removed from kube-proxy.
const REMOVED: &str = "\
    KubeProxyDrainingTerminatingNodes LoadBalancerIPMode MinimizeIPTablesRestore \
    ProxyTerminatingEndpoints ServiceInternalTrafficPolicy ServiceTrafficDistribution \
    TopologyAwareHints";

/// Gates that may have any value.
const SETTABLE: &str = "\
    APIResponseCompression APIServerIdentity APIServingWithRoutine AllAlpha AllBeta AllowDNSOnlyNodeCSR \
    AllowInsecureKubeletCertificateSigningRequests AllowParsingUserUIDFromCertAuth \
    AllowServiceExternalIPs AllowUnsafeMalformedObjectDeletion AtomicFIFO \
    AuthorizePodWebsocketUpgradeCreatePermission CBORServingAndStorage \
    CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions CRDObservedGenerationTracking \
    CRIListStreaming CSIVolumeHealth ChangeContainerStatusOnKubeletRestart \
    ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowCBOR \
    ClientsAllowTLSCacheGC ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation \
    CloudControllerManagerWebhook ClusterTrustBundle ClusterTrustBundleProjection ComponentFlagz \
    ComponentStatusz ConcurrentWatchObjectDecode ConstrainedImpersonation ContainerCheckpoint \
    ContainerRestartRules ContainerStopSignals ContextualLogging \
    ControllerManagerReleaseLeaderElectionLockOnExit CoordinatedLeaderElection \
    CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod DRAConsumableCapacity \
    DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints DRAExtendedResource \
    DRAListTypeAttributes DRANodeAllocatableResources DRAPartitionableDevices DRAPrioritizedList \
    DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus \
    DRASchedulerFilterTimeout DRAWorkloadResourceClaims DeclarativeValidationBeta \
    DeclarativeValidationTakeover DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency \
    DisableCPUQuotaWithExclusiveCPUs EnvFiles EventedPLEG ExtendWebSocketsToKubelet GangScheduling \
    GenericWorkload GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority \
    HPAConfigurableTolerance HPAScaleToZero HostnameOverride ImageVolumeWithDigest \
    InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling \
    InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory \
    InPlacePodVerticalScalingInitContainers InformerResourceVersion KMSv1 \
    KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletInUserNamespace \
    KubeletPodResourcesListUseActivePods KubeletRegistrationGetOnExistsOnly KubeletSeparateDiskGC \
    KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot \
    LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions LoggingBetaOptions \
    ManifestBasedAdmissionControlConfig MatchLabelKeysInPodTopologySpread \
    MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MemoryQoS \
    MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs \
    MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy NativeHistograms \
    NodeDeclaredFeatures NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching \
    PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI \
    PodCertificateRequest PodDeletionCost PodLevelResourceManagers PodLevelResources \
    PodLogsQuerySplitStreams PodReadyToStartContainersCondition PodTopologyLabelsAdmission PodsAPI \
    PortForwardWebsockets PreventStaticPodAPIReferences QOSReserved \
    ReduceDefaultCrashLoopBackOffDecay RelaxedServiceNameValidation ReloadKubeletClientCAFile \
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus \
    ResourceHealthStatusMessage RestartAllContainersOnContainerExits \
    RotateKubeletServerCertificate RuntimeClassInImageCriApi SELinuxMount SchedulerAsyncAPICalls \
    SchedulerAsyncPreemption SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction \
    ServiceCIDRStatusFieldWiping ShardedListAndWatch SizeBasedListCostEstimate \
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob \
    StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet \
    StatefulSetSemanticRevisionComparison StorageCapacityScoring StorageNamespaceIndex \
    StorageVersionAPI StorageVersionHash StorageVersionMigrator StrictIPCIDRValidation \
    StructuredAuthenticationConfigurationEgressSelector \
    StructuredAuthenticationConfigurationJWKSMetrics TaintTolerationComparisonOperators \
    TokenRequestServiceAccountUIDValidation TopologyAwareWorkloadScheduling \
    TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions \
    TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation \
    UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO UserNamespacesHostNetworkSupport \
    VolumeLimitScaling WatchCacheInitializationPostStartHook WatchList WatchListClient \
    WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown WindowsHostNetwork \
    WorkloadAwarePreemption WorkloadWithJob";

/// Gates that are locked to true.
const ALWAYS_ON: &str = "\
    APIServerTracing AggregatedDiscoveryRemoveBetaType AnonymousAuthConfigurableEndpoints \
    AnyVolumeDataSource AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache \
    CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets \
    ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess DeclarativeValidation \
    DisableAllocatorDualWrite DisableNodeKubeProxyVersion DynamicResourceAllocation \
    ExecProbeTimeout ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume \
    InOrderInformers InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy \
    JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz \
    KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing \
    LogarithmicScaleDown MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator \
    MutableCSINodeAllocatableCount NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread \
    NodeLogQuery NodeSwap OrderedNamespaceDeletion PodLifecycleSleepAction \
    PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness \
    PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure \
    RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation \
    ResilientWatchCacheInitialization RetryGenerateName SELinuxChangePolicy \
    SELinuxMountReadWriteOncePod SchedulerQueueingHints SeparateTaintEvictionController \
    ServiceAccountTokenJTI ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation \
    ServiceAccountTokenPodNodeInfo SidecarContainers StreamingCollectionEncodingToJSON \
    StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration \
    SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport \
    VolumeAttributesClass WinDSR WinOverlay";

/// Gates that are locked to false.
const ALWAYS_OFF: &str = "\
    AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC";
