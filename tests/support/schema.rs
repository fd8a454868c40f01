//! JSON Schemas of the program's documents: compared with `deploy/docs/schema`, where users read
//! them. `UPDATE_GOLDEN=1` writes the files.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Compares the schema of a document with the file of this name.
#[track_caller]
pub(crate) fn assert_recorded<T: JsonSchema>(name: &str) {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    join_lines(&mut schema);
    let text = format!("{schema:#}\n");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/docs/schema");
    let path = folder.join(format!("{name}.json"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(&path, &text).unwrap();
    }
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, recorded, "UPDATE_GOLDEN=1 writes {name}.json");
}

/// Makes each description one line: the lines of a doc comment mean nothing.
fn join_lines(schema: &mut Value) {
    match schema {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| match value {
            Value::String(text) if name == "description" => *text = text.replace('\n', " "),
            other => join_lines(other),
        }),
        Value::Array(items) => items.iter_mut().for_each(join_lines),
        _ => {}
    }
}
