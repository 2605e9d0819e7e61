// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * Data analysis: code reads a CSV file, draws a chart, and writes a report.
 *
 * Run it with `deno run -A examples/data_analysis.ts`, after `ipybox setup --data` for Matplotlib. The
 * report stays, and the last line says where.
 *
 * @module
 */
import { CodeExecutor } from "@ipybox/ipybox";

const SALES = `month,region,units
January,North,120
January,South,80
February,North,90
February,South,150
March,North,110
March,South,170
`;

const ANALYSIS = `
import csv
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt

totals = Counter()
with open("sales.csv", newline="") as file:
    for row in csv.DictReader(file):
        totals[row["region"]] += int(row["units"])

plt.bar(totals.keys(), totals.values())
plt.title("Units by region")
plt.savefig("chart.png")

rows = [f"| {region} | {units} |" for region, units in totals.most_common()]
report = ["# Sales", "", "| region | units |", "| ------ | ----- |", *rows, "", "![chart](chart.png)"]
Path("report.md").write_text("\\n".join(report))
plt.show()
print("\\n".join(rows))
`;

const workspace = await Deno.makeTempDir({ prefix: "ipybox-sales-" });
await Deno.writeTextFile(`${workspace}/sales.csv`, SALES);

await using executor = await CodeExecutor.start({ workspace });
const { text, images } = await executor.execute(ANALYSIS, { timeoutMs: 60_000 });
console.log(text);
for (const { path, mimeType } of images) console.log(`Shown: ${path} (${mimeType})`);
console.log(`Report: ${executor.workspace}/report.md`);
