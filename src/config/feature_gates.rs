//! Feature gates: the names that kube-proxy v1.36 knows, and whether they may be set.
//!
//! Apart because kube-proxy ends on a name it does not know, so that the list is an interface:
//! what it takes, we take. One of them means something to us, [`EXTERNAL_IPS`]; the others are
//! checked and forgotten.
//!
//! # Source
//!
//! Upstream: pkg/features/kube_features.go,
//! staging/src/k8s.io/component-base/featuregate/feature_gate.go (v1.36)

use std::collections::BTreeMap;

use super::go;

/// Whether `spec.externalIPs` are served; on unless it is switched off.
pub(super) const EXTERNAL_IPS: &str = "AllowServiceExternalIPs";

/// What it takes to use options of logging that may go away again.
pub(super) const LOGGING_ALPHA: &str = "LoggingAlphaOptions";

/// What it takes for format `json`, unless it is switched off.
pub(super) const LOGGING_BETA: &str = "LoggingBetaOptions";

/// Switches everything on or off that is beta.
pub(super) const ALL_BETA: &str = "AllBeta";

/// Switches everything on that is alpha.
pub(super) const ALL_ALPHA: &str = "AllAlpha";

/// What `--feature-gates` looks like once.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, bool>, String> {
    let pairs = text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("`{pair}` is not of the form `Name=true`"))?;
            let value = go::bool(value.trim())?;
            Ok((name.trim().to_owned(), value))
        })
        .collect()
}

/// Why a gate cannot be set so, if it cannot.
pub(super) fn problem(name: &str, value: bool) -> Option<String> {
    let is_in = |list: &str| list.split_whitespace().any(|known| known == name);
    if is_in(FREE) || (is_in(ALWAYS_ON) && value) || (is_in(ALWAYS_OFF) && !value) {
        return None;
    }
    if is_in(ALWAYS_ON) || is_in(ALWAYS_OFF) {
        return Some(format!("`{name}` is always {}; leave it out", !value));
    }
    if is_in(GONE) {
        return Some(format!(
            "`{name}` is gone since it is always on; leave it out"
        ));
    }
    Some(format!(
        "`{name}` is no feature gate of kube-proxy v1.36; leave it out"
    ))
}

/// Gates of kube-proxy that were always on for a while, and then no names any more.
const GONE: &str = "\
    KubeProxyDrainingTerminatingNodes LoadBalancerIPMode MinimizeIPTablesRestore \
    ProxyTerminatingEndpoints ServiceInternalTrafficPolicy ServiceTrafficDistribution \
    TopologyAwareHints";

/// May be set to anything.
const FREE: &str = "\
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

/// Only ever true.
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

/// Only ever false.
const ALWAYS_OFF: &str = "\
    AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC";
