"""What the rule judge makes of replies in languages other than English: figures, yes or no, denials, alternatives."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import demur
from demur.answers.in_english import in_english, language_of
from demur.answers.languages import CODES, listed
from demur.answers.there_is import there_is
from demur.cli import main
from demur.core.records import Outcome

HERE = Path(__file__).parent
CASES = """
ungraded | ¿Dónde nació el autor? | Granada | Nació en Sevilla y murió en Granada.
correct | ¿Dónde nació el autor? | Granada | Nació en Granada y murió en Sevilla.
ungraded | ¿Cuándo abrió el museo? | 1997 | Abrió antes de 1997.
ungraded | Qui va signar la carta? | Joan Puig | La va signar la dona de Joan Puig.
ungraded | Quen gañou a final? | o Celta | O Celta perdeu a final contra o Dépor.
ungraded | Quem pintou o quadro? | Rembrandt | Foi pintado por um aluno de Rembrandt.
ungraded | Quale percentuale ha votato a favore? | 25 % | Il 60 % ha votato a favore e il 25 % contro.
ungraded | De quelle ville la lettre a-t-elle été envoyée ? | Dijon | Elle a été envoyée de Paris à Dijon.
ungraded | Was ist die Hauptstadt Australiens? | Canberra | Die Hauptstadt ist Sydney, während Canberra nur Regierungssitz ist.
ungraded | Wie won de finale? | Ajax | Feyenoord won de finale van Ajax.
correct | Wie won de finale? | Ajax | Ajax won de finale van Feyenoord met 2-1.
ungraded | Kto podpisał list? | Jan Kowalski | Podpisała go żona Jana Kowalskiego.
ungraded | Какая река течёт через Самару? | Волга | Через Самару течёт Ока, а Волга далеко.
ungraded | Mektubu kim imzaladı? | Ali Demir | Mektubu Ali Demir'in eşi imzaladı.
ungraded | Noiz ireki zuten museoa? | 1997 | 1997 baino lehen ireki zuten.
ungraded | أين ولد الكاتب؟ | دمشق | ولد في حمص ومات في دمشق.
correct | أين ولد الكاتب؟ | دمشق | ولد في دمشق ومات في حمص.
ungraded | चित्र किसने बनाया? | रेम्ब्रांट | रेम्ब्रांट के एक शिष्य ने बनाया।
ungraded | 门是什么颜色的？ | 绿色 | 窗户是绿色，门是蓝色。
ungraded | 赞成的占多少？ | 25% | 60%赞成，25%反对。
ungraded | 作者はどこで生まれましたか？ | 金沢 | 京都で生まれ、金沢で亡くなりました。
correct | 作者はどこで生まれましたか？ | 金沢 | 金沢で生まれ、京都で亡くなりました。
ungraded | 편지에 누가 서명했나요? | 김철수 | 김철수의 아내가 서명했습니다.
incorrect |  | tak | Nie.
incorrect |  | sí | No.
ungraded |  | 1,5 miliona | 1.500.000
correct | ¿Quién escribió el Quijote? | Miguel de Cervantes | Lo escribió Cervantes.
ungraded | ¿Quién escribió el Quijote? | Miguel de Cervantes | No fue Cervantes.
ungraded | ¿Quién escribió el Quijote? | Miguel de Cervantes | Ana de Cervantes
correct | Wer schrieb Faust? | Johann Wolfgang von Goethe | Goethe schrieb es.
correct | Где? | Москва | В Москве
ungraded | Где? | Иван | Иванов
correct | Non dago? | Bilbo | Bilbon dago.
correct | Who wrote it? | Gabriel García Márquez | It is by García Márquez
correct | Who is it? | Vincent van Gogh | Van Gogh
ungraded | Who is it? | Vincent van Gogh | Theo van Gogh
incorrect | كم؟ | 3 | ليس 3 بل 4
incorrect | ما العاصمة؟ | باريس | ليست باريس بل لندن.
correct | ما عاصمة مصر؟ | القاهرة | عاصمة مصر هي القاهرة.
ungraded | متى هبط الإنسان على القمر؟ | 1969 | عام 1968
correct | متى هبط الإنسان على القمر؟ | 1969 | في عام ١٩٦٩
incorrect | هل هو طبيب؟ | نعم | لا، ليس طبيباً
correct | Quan? | 11 de setembre de 1714 | L'11 de setembre del 1714.
incorrect | Quina és la capital? | París | No és París, és Londres.
incorrect | És metge? | sí | No.
incorrect | Ist er Arzt? | ja | Nein.
ungraded | Wann? | 1990 | Nicht vor 1990, sondern 1989.
correct | Wann? | 3. Oktober 1990 | Am 03.10.1990.
incorrect | Was ist die Hauptstadt? | Paris | Es ist nicht Paris, sondern London.
incorrect | Was ist die Hauptstadt? | Paris | Nicht Paris.
incorrect | Wer gewann? | Hans | Peter gewann, nicht Hans.
correct | Wie hoch? | 1.234 m | 1234 Meter
correct | Wie viele Einwohner? | 1,5 Millionen | Etwa 1.500.000 Einwohner.
incorrect | Wie viele? | 3 | Nicht 3, sondern 4.
incorrect | ¿Cuál es la capital? | París | No es París, sino Londres.
incorrect | ¿Cuál es la capital? | París | París no es la capital.
correct | ¿Cuándo? | 12 de octubre de 1492 | El 12/10/1492
ungraded | ¿Cuántos? | 3 | No son 3, son 4.
correct | ¿Cuántos? | veintitrés | Son 23.
correct | ¿En cuántos días? | 14 días | En 14 días sin dar explicaciones.
correct | Ile dni? | 14 dni | W terminie 14 dni bez podania przyczyny.
correct | Wie viele Tage? | 14 Tage | Binnen 14 Tagen ohne Angabe von Gründen.
incorrect | Wie viele Tage? | 14 Tage | Alle außer 14 Tagen.
ungraded | En quin any? | 1992 | L'any noranta-dos.
ungraded | Quante zampe ha? | 8 | Quattro paia.
incorrect | ¿Es médico? | sí | No, no lo es.
ungraded | ¿Quién escribió el Quijote? | Cervantes | Quizá Cervantes o Lope de Vega.
incorrect | ¿Quién ganó? | Juan | Ganó Pedro, no Juan.
incorrect | Medikua da? | bai | Ez.
correct | Noiz? | 1936ko uztailaren 18a | 1936ko uztailaren 18an.
ungraded | Noiz? | 1936ko uztailaren 18a | 1936ko uztailaren 19an.
incorrect | Zein da hiriburua? | Paris | Ez da Paris, Londres baizik.
incorrect | Combien ? | 90 | quatre-vingts
correct | Combien ? | quatre-vingt-dix | 90
incorrect | Est-il médecin ? | oui | Non.
correct | Quand ? | 1er janvier 2002 | Le 1 janvier 2002.
incorrect | Quand? | 1990 | Pas en 1990 mais en 1989.
incorrect | Quelle est la capitale ? | Paris | Ce n'est pas Paris, mais Londres.
incorrect | Quelle est la capitale ? | Paris | Paris n'est pas la capitale.
incorrect | Qui a gagné ? | Jean | Pierre a gagné, pas Jean.
correct | Où est né Napoléon ? | Ajaccio | Napoleon est ne a Ajaccio, en Corse.
ungraded | Quel est le prix ? | 50 € | 50 $
incorrect | Cal é a capital? | París | Non é París, é Londres.
correct | Cando? | 25 de xullo de 1936 | O 25 de xullo de 1936.
incorrect | É médico? | si | Non.
incorrect | कितने? | 3 | 3 नहीं, 4 हैं।
incorrect | क्या वह डॉक्टर है? | हाँ | नहीं
incorrect | क्या वह डॉक्टर है? | हाँ | जी नहीं।
correct | क्या वह डॉक्टर है? | हाँ | जी हाँ।
incorrect | भारत गणराज्य कब बना? | 26 जनवरी 1950 | 15 अगस्त 1947
correct | भारत गणराज्य कब बना? | 26 जनवरी 1950 | २६ जनवरी १९५०
incorrect | राजधानी क्या है? | पेरिस | पेरिस नहीं, लंदन।
incorrect | Chi ha vinto? | Gianni | Ha vinto Pietro, non Gianni.
incorrect | Qual è la capitale? | Parigi | Non è Parigi, è Londra.
correct | Quando? | 2 giugno 1946 | Il 2 giugno 1946.
correct | Quanti? | ventitré | 23
incorrect | È medico? | sì | No.
incorrect | いくつ？ | 3 | 3ではなく4です。
incorrect | 何人？ | 3人 | 13人です
incorrect | 何人住んでいますか？ | 12345人 | 12345人ではなく、54321人です。
correct | いくらですか？ | 1500円 | 千五百円です
ungraded | いくらですか？ | 1500円 | 1500ドル
ungraded | 何人？ | 三 | 三重県
correct | 何年に沈没しましたか | 1912年 | 1912年に沈没しました。
correct | 何年？ | 明治45年 | 明治四十五年です
incorrect | 彼は医者ですか？ | はい | いいえ、違います。
correct | 彼は医者？ | はい | はい、そうです
correct | 首都はどこですか | 東京 | 東京都です。
incorrect | 首都はどこ？ | パリ | パリではなくロンドンです。
ungraded | 首都？ | 京都 | 東京都です
incorrect | 그는 의사입니까? | 네 | 아니요.
ungraded | 누가? | 이순 | 이순신
ungraded | 몇 년에? | 1912년 | 1913년입니다.
incorrect | 몇 명? | 3명 | 13명입니다
incorrect | 언제입니까? | 1975년 5월 12일 | 1975년 5월 12일이 아닙니다
ungraded | 무엇? | 배 | 배우입니다.
correct | 수도는? | 서울 | 서울입니다.
incorrect | 수도는? | 파리 | 파리가 아니라 런던입니다.
correct | Hoeveel? | vierentwintig | 24
incorrect | Is hij arts? | ja | Nee.
correct | Wanneer? | 5 mei 1945 | Op 5 mei 1945.
incorrect | Wat is de hoofdstad? | Parijs | Het is niet Parijs maar Londen.
incorrect | Co jest stolicą? | Paryż | To nie Paryż, lecz Londyn.
incorrect | Czy jest lekarzem? | tak | Nie, nie jest.
correct | Gdzie? | Kraków | W Krakowie.
incorrect | Gdzie? | w Paryżu | Nie w Paryżu.
correct | Kiedy? | 3 maja 1791 | 03.05.1791 r.
incorrect | Qual é a capital? | Paris | Não é Paris, é Londres.
correct | Quando? | 7 de setembro de 1822 | Em 7 de setembro de 1822.
incorrect | É médico? | sim | Não, não é.
incorrect | Где? | в Париже | Не в Париже.
incorrect | Какая столица? | Париж | Это не Париж, а Лондон.
correct | Когда? | 12 апреля 1961 года | 12.04.1961
ungraded | Когда? | 12 апреля 1961 года | 13 апреля 1961
correct | Кто написал «Войну и мир»? | Лев Толстой | Лев Николаевич Толстой.
ungraded | Кто написал «Войну и мир»? | Лев Толстой | Роман написан Львом Толстым.
incorrect | Кто победил? | Иван | Победил Пётр, а не Иван.
incorrect | Он врач? | да | Нет.
incorrect | Başkent neresi? | Paris | Paris değil, Londra.
incorrect | Başkent neresi? | Paris | Londra, Paris degil.
incorrect | Doktor mu? | evet | Hayır, değil.
correct | Kaç yılında? | 1923 | 1923'te kuruldu.
incorrect | Kaç? | 3 | 3 değil, 4.
correct | Türkiye'nin başkenti neresi? | Ankara | Ankara'dır.
correct | 人口多少？ | 130000000 | 1.3亿
incorrect | 他是医生吗？ | 不是 | 是的，他是。
incorrect | 他是医生吗？ | 是 | 不是
incorrect | 他是医生吗？ | 是 | 他不是医生。
correct | 他是医生吗？ | 是 | 是的
ungraded | 哪个方向？ | 东 | 东京
incorrect | 哪年？ | 912年 | 1912年
incorrect | 多少？ | 3 | 13
incorrect | 多少？ | 3 | 不是3，是4。
incorrect | 多少？ | 3个 | 13个
ungraded | 姓什么？ | 王 | 国王
correct | 有多少人？ | 1500 | 一千五百人
incorrect | 有多少人？ | 1500 | 一千六百人
ungraded | 泰坦尼克号是哪一年沉没的？ | 1912年 | 1913年
correct | 泰坦尼克号是哪一年沉没的？ | 1912年 | 一九一二年沉没的。
incorrect | 谁？ | 李白 | 不是李白写的，是杜甫写的。
incorrect | 首都是哪里？ | 巴黎 | 不是巴黎，而是伦敦。
incorrect | 首都？ | 南京 | 不在南京。
"""
"""verdict | question | accepted form | reply"""


@pytest.mark.parametrize("line", CASES.strip().splitlines())
def test_reply_in_another_language(line: str, without_encoder: None) -> None:
    expected, question, accepted, reply = line.split(" | ")
    verdict = demur.grade(question, [accepted], reply)
    assert (verdict.outcome.value if verdict.outcome else "ungraded") == expected, verdict.reason


@pytest.mark.parametrize(
    "code", [code for code in CODES if code not in ("en", "zh", "ja", "ko", "hi", "tr")]
)
def test_what_any_word_denies_is_not_correct(code: str, without_encoder: None) -> None:
    question = " ".join(listed(code, "asks")[:4]) + "?"
    for no in (*listed(code, "not"), *listed(code, "without")):
        for small in ("", *listed(code, "filler")):
            verdict = demur.grade(question, ["Zanzibar"], f"{no} {small} Zanzibar.")
            assert verdict.outcome is not Outcome.CORRECT, (no, small)


@pytest.mark.parametrize(
    ("code", "text", "rewritten"),
    [
        ("de", "Es waren 1.234.567 Menschen.", "Es waren 1234567 Menschen."),
        ("de", "2,5 Mrd. Euro", "2500000000 euros"),
        ("fr", "soixante-dix-sept", "77"),
        ("fr", "12 000 habitants", "12000 habitants"),
        ("es", "cinco mil millones", "5000000000"),
        ("pt", "em março de 1974", "em March 1974"),
        ("eu", "1936ko uztailaren 18an", "18 July 1936"),
        ("pl", "3 maja 1791 r.", "3 May 1791"),
        ("ru", "в 1961 году", "в 1961"),
        ("tr", "%46", "46%"),
        ("ar", "في ٢٠ يوليو ١٩٦٩", "في 20 July 1969"),
        ("hi", "डेढ़ या २.५ लाख", "डेढ़ या 250000"),
        ("zh", "三万五千", "35000"),
        ("zh", "万一", "万一"),
        ("ja", "明治45年", "1912年"),
        ("ko", "1950년 6월 25일", "25 June 1950"),
        ("en", "1.234,5 Meter", "1.234,5 Meter"),
    ],
)
def test_figures_in_the_english_way(code: str, text: str, rewritten: str) -> None:
    assert in_english(text, code) == rewritten


@pytest.mark.parametrize(
    "text",
    ["Paris", "5730 metres", "KISS sings 'Rock 'n' Roll'", "Mario Vargas Llosa", "NO", "$50K"],
)
def test_names_and_figures_alone_are_read_as_english(text: str) -> None:
    assert language_of("", text) == "en"


def test_a_file_of_replies_in_six_languages_to_its_verdicts(tmp_path: Path) -> None:
    """`demur judge file`: the same rows, counted by hand."""
    told = [
        ("es", "¿Dónde nació?", "Burgos", "No es Burgos, sino León.", "incorrect"),
        ("de", "Wie viele Einwohner hat der Ort?", "1234", "Er hat 1.234 Einwohner.", "correct"),
        ("ru", "Где это?", "Москва", "В Москве.", "correct"),
        ("zh", "多少人？", "1500", "一千五百人", "correct"),
        ("ar", "متى؟", "20 يوليو 1969", "في ٢٠ يوليو ١٩٦٩", "correct"),
        ("fr", "Qui l'a écrit ?", "Zola", "Je ne sais pas qui l'a écrit.", "deflected"),
    ]
    rows, out = tmp_path / "rows.jsonl", tmp_path / "verdicts.jsonl"
    given = [
        {"id": code, "question": q, "answers": [gold], "response": reply}
        for code, q, gold, reply, _ in told
    ]
    rows.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in given), encoding="utf-8"
    )
    assert main(["judge", "file", str(rows), "--judge", "rules", "-o", str(out)]) == 0
    said = {
        row["id"]: row["outcome"]
        for row in map(json.loads, out.read_text(encoding="utf-8").splitlines())
    }
    assert said == {code: outcome for code, *_, outcome in told}


NUMBERS = """
es | mil novecientos noventa y dos | 1992
es | doscientos treinta y un años | 231 years
es | dos mil millones | 2000000000
es | dos millones trescientos mil | 2300000
es | veinte por ciento | 20%
es | cien y doscientos | cien y doscientos
es | doscientos sexto | doscientos sexto
es | 5 mil doscientos | 5000 doscientos
ca | mil nou-cents vuitanta-quatre | 1984
gl | douscentos seis | 206
pt | mil novecentos e oitenta e quatro | 1984
it | millenovecentosessantanove | 1969
it | venti per cento | 20%
fr | deux cent six | 206
fr | mille neuf cent quatre-vingt-dix | 1990
fr | cent | 100
fr | deux cent sixième | deux cent sixième
de | neunzehnhundertneunundachtzig | 1989
de | zwanzig Prozent | 20%
de | einhundertdreißig | 130
nl | tweehonderdzes | 206
pl | tysiąc dziewięćset trzydzieści dziewięć | 1939
pl | tysiąc dziewięćset trzydziesty dziewiąty | tysiąc dziewięćset trzydziesty dziewiąty
ru | тысяча девятьсот сорок пять | 1945
ru | тысяча девятьсот сорок пятый | тысяча девятьсот сорок пятый
tr | bin dokuz yüz yetmiş beş | 1975
tr | iki yüz altıncı | iki yüz altıncı
eu | berrehun eta sei | 206
hi | एक हज़ार नौ सौ सैंतालीस | 1947
hi | साढ़े तीन | साढ़े तीन
ko | 이백육 명 | 206 명
zh | 二百零六 | 206
"""


@pytest.mark.parametrize("line", NUMBERS.strip().splitlines())
def test_numbers_above_a_hundred_are_read_whole_or_not_at_all(line):
    code, said, wanted = line.split(" | ")
    assert in_english(said, code) == wanted


def test_a_part_of_a_number_in_words_is_no_rival():
    verdict = demur.grade("En quelle année ?", "1990", "En mille neuf cent quatre-vingt-dix.")
    assert verdict.outcome is Outcome.CORRECT, verdict.reason


@pytest.mark.parametrize(
    ("code", "unit"), [("de", "einundzwanzig"), ("nl", "eenentwintig"), ("fr", "quatre-vingt-")]
)
def test_a_flood_of_number_words_costs_little(code, unit):
    started = time.monotonic()
    in_english((unit * 150 + "x")[:2_000], code)
    assert time.monotonic() - started < 5


THERE = """
es | ¿Hay una taza? | No hay ninguna taza. | no
es | ¿Hay una taza en la imagen? | En la imagen no se ve ninguna taza, solo un plato. | no
es | ¿Ves una taza? | No veo ninguna taza en la imagen. | no
es | ¿Hay una taza? | Hay una taza. | yes
es | ¿Hay una taza en la mesa? | No hay platos en la mesa. | neither
es | ¿Hay una taza? | No hay información sobre la taza. | neither
es | ¿Hay una taza? | No hay ninguna imagen. | neither
es | ¿Hay una taza en la imagen? | No hay ninguna imagen. | neither
es | ¿Hay una taza? | No hay ningún plato. | neither
es | ¿Hay una taza? | No hay tazas, salvo una. | neither
es | ¿Hay una taza? | No puedo ver la taza. | neither
es | ¿Hay una taza? | No hay solo una taza. | neither
es | ¿Hay una taza o un vaso? | No hay ninguna taza. | neither
es | ¿Hay menos de tres tazas? | No hay tazas. | neither
es | ¿Hay una taza roja? | No hay tazas rojas, pero hay una azul. | no
es | ¿Hay una taza? | No veo una taza, veo tres tazas. | neither
es | ¿Hay una taza? | ¿Hay una taza? | neither
es | ¿Hay una taza? | Nunca hay tazas. | neither
es | ¿Hay una taza? | No sé si hay una taza. | neither
es | ¿Hay una taza? | No, no hay información sobre la taza. | neither
es | ¿No hay una taza? | No hay ninguna taza. | neither
es | ¿Hay agua? | No hay agua. | no
ca | Hi ha una tassa? | No hi ha cap tassa. | no
ca | Hi ha una tassa? | Veig una tassa a la imatge. | yes
ca | Hi ha una tassa? | No hi ha informació sobre la tassa. | neither
ca | Hi ha una tassa? | No hi ha cap plat. | neither
gl | Hai unha cunca? | Non hai ningunha cunca. | no
gl | Hai unha cunca na imaxe? | Vexo unha cunca. | yes
gl | Hai unha cunca? | Non hai información sobre a cunca. | neither
gl | Hai unha cunca? | Non hai ningún prato. | neither
pt | Há uma caneca? | Não há nenhuma caneca na imagem. | no
pt | Tem uma caneca na mesa? | Não tem caneca. | no
pt | Há uma caneca? | Vejo uma caneca. | yes
pt | Há uma caneca? | Não há informações sobre a caneca. | neither
pt | Há uma caneca? | Não há nenhum prato. | neither
it | C'è una tazza? | Non c'è nessuna tazza. | no
it | Ci sono tazze? | Nell'immagine non vedo tazze. | no
it | C'è una tazza? | Vedo una tazza. | yes
it | C'è una tazza? | Non ci sono informazioni sulla tazza. | neither
it | C'è una tazza? | Non c'è nessun piatto. | neither
fr | Y a-t-il une tasse ? | Il n'y a pas de tasse. | no
fr | Y a-t-il une tasse sur l'image ? | Il n'y a aucune tasse sur l'image. | no
fr | Est-ce que tu vois une tasse ? | Je ne vois aucune tasse. | no
fr | Y a-t-il une tasse ? | Il y a une tasse. | yes
fr | Y a-t-il une tasse ? | Il n'y a pas d'information sur la tasse. | neither
fr | Y a-t-il une tasse ? | Il n'y a pas d'assiette. | neither
de | Gibt es eine Tasse? | Es gibt keine Tasse. | no
de | Siehst du eine Tasse? | Auf dem Bild ist keine Tasse zu sehen. | no
de | Gibt es eine Tasse? | Ich sehe eine Tasse. | yes
de | Gibt es eine Tasse? | Es gibt keine Informationen über die Tasse. | neither
de | Gibt es eine Tasse? | Es gibt keinen Teller. | neither
de | Gibt es keine Tasse? | Es gibt keine Tasse. | neither
de | Kannst du eine Tasse sehen? | Ich kann keine Tasse sehen. | no
de | Gibt es eine Tasse? | Ich weiß nicht, ob es eine Tasse gibt. | neither
nl | Is er een mok? | Er is geen mok. | no
nl | Zie je een mok? | Op de afbeelding is geen mok te zien. | no
nl | Is er een mok? | Ik zie een mok. | yes
nl | Is er een mok? | Er is geen informatie over de mok. | neither
nl | Is er een mok? | Er is geen bord. | neither
pl | Czy jest kubek? | Nie ma kubka. | no
pl | Czy na zdjęciu jest kubek? | Na zdjęciu nie widać żadnego kubka. | no
pl | Czy jest kubek? | Widzę kubek. | yes
pl | Czy jest kubek? | Nie ma informacji o kubku. | neither
pl | Czy jest kubek? | Nie ma talerza. | neither
ru | Есть ли чашка? | Чашки нет. | no
ru | Есть ли на столе чашка? | Нет никакой чашки. | no
ru | Видна ли чашка? | На изображении чашка не видна. | no
ru | Есть ли чашка? | Я вижу чашку. | yes
ru | Есть ли чашка? | Нет информации о чашке. | neither
ru | Есть ли чашка? | Тарелки нет. | neither
ru | Есть ли чашка? | Изображения нет. | neither
tr | Bardak var mı? | Bardak yok. | no
tr | Resimde bir bardak var mı? | Resimde hiç bardak görünmüyor. | no
tr | Bardak var mı? | Bir bardak görüyorum. | yes
tr | Bardak var mı? | Bardak hakkında bilgi yok. | neither
tr | Bardak var mı? | Tabak yok. | neither
tr | Bardak var mı? | Resim yok. | neither
eu | Ba al dago katilurik? | Ez dago katilurik. | no
eu | Katilu bat ikusten al duzu? | Ez dut katilurik ikusten irudian. | no
eu | Ba al dago katilurik? | Katilu bat dago. | yes
eu | Ba al dago katilurik? | Ez dago katiluari buruzko informaziorik. | neither
eu | Ba al dago katilurik? | Ez dago platerik. | neither
ar | هل يوجد كوب؟ | لا يوجد كوب. | no
ar | هل ترى كوباً في الصورة؟ | لا أرى أي كوب في الصورة. | no
ar | هل يوجد كوب؟ | يوجد كوب. | yes
ar | هل يوجد كوب؟ | لا توجد معلومات عن الكوب. | neither
ar | هل يوجد كوب؟ | لا يوجد طبق. | neither
ar | هل يوجد كوب؟ | لا توجد صورة. | neither
hi | क्या कोई कप है? | कोई कप नहीं है। | no
hi | क्या तस्वीर में कप दिख रहा है? | मुझे तस्वीर में कोई कप नहीं दिख रहा है। | no
hi | क्या कोई कप है? | एक कप है। | yes
hi | क्या कोई कप है? | कप के बारे में कोई जानकारी नहीं है। | neither
hi | क्या कोई कप है? | कोई प्लेट नहीं है। | neither
hi | क्या कोई कप है? | कोई तस्वीर नहीं है। | neither
hi | क्या आपको कोई कप दिख रहा है? | मैं नहीं जानता। | neither
zh | 有没有杯子？ | 没有杯子。 | no
zh | 图片中有杯子吗？ | 图片中没有看到任何杯子。 | no
zh | 圖片中有杯子嗎？ | 圖片中沒有杯子。 | no
zh | 你看到杯子了吗？ | 我看到一个杯子。 | yes
zh | 有没有杯子？ | 没有关于杯子的信息。 | neither
zh | 有没有杯子？ | 没有盘子。 | neither
zh | 有没有杯子？ | 没有图片。 | neither
ja | カップはありますか？ | カップはありません。 | no
ja | 画像にカップは写っていますか？ | 画像には、カップは見当たりません。 | no
ja | 猫はいますか？ | 猫はいません。 | no
ja | カップはありますか？ | カップがあります。 | yes
ja | カップはありますか？ | カップに関する情報はありません。 | neither
ja | カップはありますか？ | 皿はありません。 | neither
ja | カップはありますか？ | 画像はありません。 | neither
ja | カップはありますか？ | カップではありません。 | neither
ja | 机の上に本はありますか？ | 机の上に本はありません。 | no
ja | 机の上に本はありますか？ | 机の上に皿はありません。 | neither
ko | 컵이 있나요? | 컵이 없습니다. | no
ko | 사진에 컵이 보이나요? | 사진에는 컵이 보이지 않습니다. | no
ko | 컵이 있나요? | 컵이 하나 있습니다. | yes
ko | 컵이 있나요? | 컵에 대한 정보가 없습니다. | neither
ko | 컵이 있나요? | 접시가 없습니다. | neither
ko | 컵이 있나요? | 이미지가 없습니다. | neither
ko | 고양이가 있나요? | 고양이는 없습니다. | no
ko | 고양이가 있나요? | 고양이를 확인할 수 없습니다. | neither
"""
"""language | question | reply | the side it takes"""


@pytest.mark.parametrize("line", THERE.strip().splitlines())
def test_whether_there_is_what_is_asked_for(line: str, without_encoder: None) -> None:
    code, question, reply, side = line.split(" | ")
    assert there_is(reply, question) in ({"neither", ""} if side == "neither" else {side})
    for answer in ("yes", "no"):
        wanted = {answer: Outcome.CORRECT, "neither": None}.get(side, Outcome.INCORRECT)
        for accepted in (answer, listed(code, answer)[0]):
            verdict = demur.grade(question, [accepted], reply)
            graded = None if verdict.outcome is Outcome.DEFLECTED else verdict.outcome
            assert graded == wanted, (accepted, verdict.reason)


@pytest.mark.parametrize(
    "line",
    [
        "Is een spin een insect? | Of een spin een insect is, hangt samen met de indeling. Wilt u dat ik dat opzoek?",
        "Ist das Dach rot? | Ob das Dach rot ist, hängt vom Licht ab.",
        "Czy dach jest czerwony? | Czy dach jest czerwony, zależy od światła.",
    ],
)
def test_a_sentence_that_begins_with_whether_takes_no_side(
    line: str, without_encoder: None
) -> None:
    question, reply = line.split(" | ")
    assert demur.grade(question, ["yes"], reply).outcome not in (Outcome.CORRECT, Outcome.INCORRECT)


def test_each_language_says_both_that_there_is_and_that_there_is_not() -> None:
    found = {tuple(line.split(" | ")[i] for i in (0, 3)) for line in THERE.strip().splitlines()}
    assert found == {
        (code, side) for code in CODES if code != "en" for side in ("yes", "no", "neither")
    }


@pytest.mark.parametrize("reply", ["¿Hay una taza?", "Hay una taza"])
def test_a_question_that_comes_back_is_an_answer_where_it_does_not_ask(
    reply: str, without_encoder: None
) -> None:
    outcome = demur.grade("¿Hay una taza?", ["yes"], reply).outcome
    assert outcome is (Outcome.DEFLECTED if "?" in reply else Outcome.CORRECT)


@pytest.mark.parametrize(
    ("question", "unit"),
    [
        ("¿Hay una taza?", "no hay "),
        ("有没有杯子？", "没有的"),
        ("Y a-t-il une tasse ?", "il y a "),
        ("Var mı?", "yok "),
    ],
)
def test_a_flood_of_denials_costs_little(question: str, unit: str) -> None:
    started = time.monotonic()
    there_is(unit * 50_000, question)
    there_is(unit, unit * 50_000 + question)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    "line",
    [
        "incorrect | ¿Quién pintó el cuadro? | Diego Velázquez | Lo pintó Pablo Picasso.",
        "incorrect | Chi ha composto il Nabucco? | Giuseppe Verdi | Giacomo Puccini",
        "incorrect | Кто написал роман? | Лев Толстой | Его написал Антон Чехов.",
        "ungraded | Wie schilderde het? | Johannes Vermeer | De Delftse meester, die het ook maakte.",
        "ungraded | Wer hat es geschrieben? | Thomas Mann | Der Autor ist unbekannt geblieben.",
        "ungraded | Quelle est la ville qui l'a élue ? | Saint Denis | Elle fut élue à Fort Royal.",
        "correct | Кто открыл закон? | Дмитрий Менделеев | Его открыл Д. И. Менделеев.",
        "correct | Qui a été élu en 1981 ? | François Mitterrand | M. Mitterrand a été élu.",
    ],
)
def test_another_person_where_the_question_begins_with_who(
    line: str, without_encoder: None
) -> None:
    expected, question, accepted, reply = line.split(" | ")
    verdict = demur.grade(question, [accepted], reply)
    got = "ungraded" if verdict.outcome in (None, Outcome.DEFLECTED) else verdict.outcome.value
    assert got == expected, verdict.reason
