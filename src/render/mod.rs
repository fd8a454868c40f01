//! From the picture of the cluster to the text of rules.
