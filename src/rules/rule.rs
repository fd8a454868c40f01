//! stand-in
/// x
#[derive(Debug, Clone, PartialEq)]
pub struct Rule(String);
impl Rule {
    /// x
    pub fn parse(spec: &str) -> Result<Self, ()> {
        Ok(Self(spec.into()))
    }
}
